// The value of each way to exchange rows: GPU-hours and attainment of our policy on three workloads
// with DeepSeek-V3 on H200, with one pool and with up to eight. It shows which improvement of the
// data plane would gain most.
//
// levers_bench

#include <cstdio>
#include <string>
#include <vector>

#include "cli/simulate/command.h"
#include "controllers/simulate/compare.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

struct Workload {
  const char* name;
  const char* trace;
  double scale;
  double from_hours;
  double hours;
  int max_weight;
};
constexpr Workload kWorkloads[] = {
    {"R1", "servegen_deepseek_r1_div2", 12, 0, 0, 100},
    {"Azure", "azure2023_conv.csv.gz", 360, 0, 0, 100},
    {"m-large", "servegen_mlarge_div400", 800, 168, 96, 400},
};

struct Lever {
  const char* name;
  void (*set)(PredictorOptions&);
  double exchange = 1;  // a factor on the model's times
};
void TwoPhases(PredictorOptions& o) {
  o.modes = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseParallel};
}
const Lever kLevers[] = {
    {"as served", [](PredictorOptions&) {}},
    {"gate on attention",
     [](PredictorOptions& o) {
       o.gates = {GateSide::kExperts, GateSide::kAttention};
     }},
    {"fp8 both ways", [](PredictorOptions& o) { o.wires = {WireFormat::kFp8}; }},
    {"two phases over every card", TwoPhases},
    {"two phases, FixedPoint sums per node",
     [](PredictorOptions& o) {
       TwoPhases(o);
       o.sums = {SumRule::kContributions, SumRule::kFixedPoint};
     }},
    {"two phases, fp8",
     [](PredictorOptions& o) {
       TwoPhases(o);
       o.wires = {WireFormat::kFp8};
     }},
    {"all together", [](PredictorOptions& o) { o = WithAllModes(o); }},
    {"all, and a free exchange", [](PredictorOptions& o) { o = WithAllModes(o); }, 1e-3},
};

int Main() {
  std::printf(
      "DeepSeek-V3 on H200, TPOT 100 ms, prompts computed elsewhere: GPU-hours, attainment\n\n"
      "| lever | pools |");
  for (const Workload& workload : kWorkloads) std::printf(" %s |", workload.name);
  std::printf("\n|---|---|---|---|---|\n");
  std::vector<std::vector<SimulatedRequest>> requests;
  cli::SimulateOptions options;
  options.setting.model = "deepseek-v3";
  options.setting.attention_hardware = options.setting.expert_hardware = "H200";
  options.demand.prefill_elsewhere = true;
  options.scaling.interval_seconds = 60;
  for (const Workload& workload : kWorkloads) {
    options.demand.trace = std::string(JANUS_SOURCE_DIR "/data/traces/") + workload.trace;
    options.demand.scale = workload.scale;
    options.demand.from_hours = workload.from_hours;
    options.demand.hours = workload.hours;
    options.demand.max_weight = workload.max_weight;
    auto read = cli::ReadDemand(options.demand);
    if (!read.ok()) return std::fprintf(stderr, "%s\n", read.status().message().c_str()), 1;
    requests.push_back(std::move(read->requests));
  }
  const auto setting = cli::ReadSetting(options.setting);
  if (!setting.ok()) return 1;
  for (const Lever& lever : kLevers) {
    for (const int pools : {1, 8}) {
      std::printf("| %s | %d |", lever.name, pools);
      for (const auto& workload : requests) {
        Comparison comparison;
        comparison.belief = comparison.truth = Perturbed(*setting, {1, 1, lever.exchange});
        comparison.scaling = options.scaling;
        comparison.scaling.max_pools = pools;
        comparison.predictor.max_micro_batches = 4;
        comparison.predictor.max_attention = options.scaling.attention.max;
        comparison.predictor.max_experts = options.scaling.experts.max;
        lever.set(comparison.predictor);
        comparison.machinery.growth_reserve_percent = options.growth_reserve_percent;
        comparison.policies = {"ours"};
        const auto runs = Compare(workload, comparison, {});
        if (!runs.ok()) return std::fprintf(stderr, "%s\n", runs.status().message().c_str()), 1;
        const Totals& totals = runs->front().totals;
        std::printf(" %.0f, %.1f %% |", totals.gpu_hours, 100 * totals.Attainment());
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
  return 0;
}

}  // namespace
}  // namespace janus::bench

int main() {
  return janus::bench::Main();
}
