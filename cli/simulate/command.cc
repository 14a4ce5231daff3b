#include "cli/simulate/command.h"

#include <cstdio>
#include <fstream>

#include "cli/simulate/report.h"
#include "controllers/simulate/compare.h"

namespace janus::cli {
namespace {

std::string Title(const SimulateOptions& options, const controllers::Setting& setting) {
  const controllers::ScalingPolicy& scaling = options.scaling;
  char text[320];
  std::snprintf(text, sizeof(text),
                "%s, attention on %s, experts on %s, TPOT %.4g ms, TTFT %.4g s at %.4g %%, %d and "
                "%d instances per pod, start %.4g s",
                setting.model.name.c_str(), setting.attention.hardware.name.c_str(),
                setting.experts.hardware.name.c_str(), scaling.tpot.seconds * 1e3,
                scaling.ttft ? scaling.ttft->seconds : 0, scaling.tpot.percentile * 100,
                scaling.attention.instances_per_pod, scaling.experts.instances_per_pod,
                options.start_seconds);
  std::string title = text;
  if (options.truth != controllers::TermFactors()) {
    std::snprintf(text, sizeof(text),
                  "; the true times are %.4g (attention), %.4g (experts) and %.4g (exchange) of "
                  "those that policies assume",
                  options.truth.attention, options.truth.experts, options.truth.exchange);
    title += text;
  }
  return title;
}

// Of mAnE.
Result<controllers::Counts> ReadCounts(const std::string& text) {
  controllers::Counts counts;
  int end = 0;
  if (std::sscanf(text.c_str(), "%4dA%4dE%n", &counts.m, &counts.n, &end) == 2 &&
      end == static_cast<int>(text.size()) && counts.m >= 1 && counts.n >= 1) {
    return counts;
  }
  return InvalidArgument("simulate: --first-counts is '" + text +
                         "'; want the numbers of attention and expert instances, such as 2A8E");
}

std::string ProgressLine(std::string_view policy, double share) {
  constexpr int kWidth = 30;
  const auto done = static_cast<size_t>(share * kWidth);
  char text[96];
  std::snprintf(text, sizeof(text), "%-8.*s [%s%s] %3.0f %%", static_cast<int>(policy.size()),
                policy.data(), std::string(done, '#').c_str(),
                std::string(kWidth - done, '.').c_str(), 100 * share);
  return text;
}

// The ways to exchange rows. What the service fixes is not chosen.
void SetExchange(const SimulateOptions& options, controllers::PredictorOptions& predictor) {
  predictor.sum_bits = options.exchange.sum_bits;
  if (options.all_modes) predictor = WithAllModes(std::move(predictor));
  const controllers::PlanPins& pins = options.pins;
  if (pins.mode) predictor.modes = {*pins.mode};
  if (pins.gate) predictor.gates = {*pins.gate};
  if (pins.sum) predictor.sums = {*pins.sum};
  if (pins.wire) predictor.wires = {*pins.wire};
}

}  // namespace

controllers::ScalingPolicy SimulateOptions::DefaultScaling() {
  controllers::ScalingPolicy scaling;
  scaling.tpot.seconds = 0.1;
  scaling.ttft = controllers::LatencyTarget{10, 0.95};
  scaling.experts.max = 256;
  scaling.max_batch_per_attention = 1024;  // MoEService's 256 would bind long before memory does
  scaling.forecast.kind = controllers::ForecastKind::kEwma;
  return scaling;
}

Result<std::string> Simulate(const SimulateOptions& options,
                             const std::function<void(const std::string&)>& progress,
                             const std::function<bool()>& should_stop) {
  if (options.setting.model.empty()) {
    return InvalidArgument("simulate: give --model: a preset or a checkpoint folder");
  }
  // Fails now rather than after minutes of work. The file keeps its content until the end.
  if (!options.html.empty() && !std::ofstream(options.html, std::ios::app)) {
    return FailedPrecondition(options.html +
                              ": cannot write this file; check its folder and permissions");
  }
  controllers::Comparison comparison;
  JANUS_ASSIGN_OR_RETURN(comparison.belief, ReadSetting(options.setting));
  comparison.belief.attention_per_node = options.exchange.attention_per_node;
  comparison.belief.experts_per_node = options.exchange.experts_per_node;
  comparison.truth = Perturbed(comparison.belief, options.truth);
  if (progress) progress("reading the requests");
  JANUS_ASSIGN_OR_RETURN(const DemandRead demand, ReadDemand(options.demand));
  comparison.scaling = options.scaling;
  comparison.predictor.max_micro_batches = kMaxMicroBatches;
  comparison.predictor.max_attention = options.scaling.attention.max;
  comparison.predictor.max_experts = options.scaling.experts.max;
  SetExchange(options, comparison.predictor);
  // What timed devices play.
  if (options.rows_for_one != 1 && !options.pins.mode) {
    comparison.predictor.modes = {ExchangeMode::kDirect};
  }
  comparison.tightens_peers = options.tightens_peers;
  comparison.machinery.growth_reserve_percent = options.growth_reserve_percent;
  comparison.machinery.rows_for_one = options.rows_for_one;
  comparison.machinery.start_s = options.start_seconds;
  comparison.machinery.change_pause_s = options.pause_milliseconds / 1e3;
  if (!options.first_counts.empty()) {
    JANUS_ASSIGN_OR_RETURN(comparison.first, ReadCounts(options.first_counts));
  }
  comparison.window_s = options.window_seconds;
  comparison.oracle.attainment = options.oracle_attainment;
  comparison.oracle.interval_s = options.oracle_interval_seconds;
  comparison.policies = options.policies;
  comparison.should_stop = should_stop;
  SimulationReport report;
  report.title = Title(options, comparison.belief);
  report.workload = Describe(options.demand, demand);
  report.tpot_seconds = options.scaling.tpot.seconds;
  report.ttft_seconds = options.scaling.ttft ? options.scaling.ttft->seconds : 0;
  report.window_s = options.window_seconds;
  JANUS_ASSIGN_OR_RETURN(
      report.runs, Compare(demand.requests, comparison, [&](std::string_view policy, double share) {
        if (progress) progress(ProgressLine(policy, share));
      }));
  if (progress) progress("");
  if (!options.html.empty()) {
    std::ofstream file(options.html, std::ios::trunc);
    file << RenderHtml(report);
    if (!file.flush())
      return FailedPrecondition(options.html +
                                ": cannot write this file; check its folder and permissions");
  }
  return options.json ? RenderJson(report) : RenderText(report);
}

}  // namespace janus::cli
