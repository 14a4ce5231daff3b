#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/simulate/report.h"

namespace janus::cli {
namespace {

// Why policies did not act: one reason per line.
std::string HoldsOf(const SimulationReport& report) {
  std::string text;
  char line[64];
  for (const controllers::SimulationRun& run : report.runs) {
    for (const controllers::HoldRecord& hold : run.holds) {
      std::snprintf(line, sizeof(line), "%8lld %8.2f h  ", static_cast<long long>(hold.count),
                    hold.first_s / 3600);
      std::string start = run.policy;
      start.resize(std::max<size_t>(start.size() + 1, 10), ' ');
      start += hold.reason;
      start.resize(std::max<size_t>(start.size(), 31), ' ');
      text += start + line + hold.why + "\n";
    }
  }
  if (text.empty()) return text;
  return "\nPOLICY    HELD BECAUSE            TIMES   FIRST AT  FIRST MESSAGE\n" + text;
}

}  // namespace

std::string RenderText(const SimulationReport& report) {
  std::string text = report.title + "\n" + report.workload + "\n\n";
  char line[256];
  std::snprintf(line, sizeof(line), "%-9s %10s %9s %8s %9s %9s %9s %8s %8s %8s\n", "POLICY",
                "GPU-HOURS", "OF FIRST", "ATTAINED", "TPOT p50", "TPOT p99", "TTFT p99", "REFUSED",
                "PEAK", "CHANGES");
  text += line;
  const double first = report.runs.empty() ? 0 : report.runs[0].totals.gpu_hours;
  for (const controllers::SimulationRun& run : report.runs) {
    const controllers::Totals& t = run.totals;
    std::snprintf(line, sizeof(line),
                  "%-9s %10.1f %8.1f%% %7.2f%% %6.1f ms %6.1f ms %7.2f s %8lld %8d %8zu\n",
                  run.policy.c_str(), t.gpu_hours, first > 0 ? 100 * t.gpu_hours / first : 0,
                  100 * t.Attainment(), t.tpot_p50 * 1e3, t.tpot_p99 * 1e3, t.ttft_p99,
                  static_cast<long long>(t.refused), t.peak_gpus, run.decisions.size() - 1);
    text += line;
  }
  return text + HoldsOf(report);
}

std::string RenderJson(const SimulationReport& report) {
  nlohmann::ordered_json root;
  root["title"] = report.title;
  root["workload"] = report.workload;
  root["tpotTargetSeconds"] = report.tpot_seconds;
  root["ttftTargetSeconds"] = report.ttft_seconds;
  root["windowSeconds"] = report.window_s;
  root["policies"] = nlohmann::ordered_json::array();
  for (const controllers::SimulationRun& run : report.runs) {
    const controllers::Totals& t = run.totals;
    nlohmann::ordered_json one;
    one["policy"] = run.policy;
    one["gpuHours"] = t.gpu_hours;
    one["peakGpus"] = t.peak_gpus;
    one["attainment"] = t.Attainment();
    one["requests"] = t.requests;
    one["finished"] = t.finished;
    one["refused"] = t.refused;
    one["preempted"] = t.preempted;
    one["inputTokens"] = t.input_tokens;
    one["outputTokens"] = t.output_tokens;
    one["tpotSeconds"] = {{"p50", t.tpot_p50}, {"p95", t.tpot_p95}, {"p99", t.tpot_p99}};
    one["ttftSeconds"] = {{"p50", t.ttft_p50}, {"p95", t.ttft_p95}, {"p99", t.ttft_p99}};
    for (const controllers::WindowRecord& w : run.windows) {
      one["windows"].push_back({{"startSeconds", w.start_s},
                                {"arrived", w.arrived},
                                {"attained", w.attained},
                                {"refused", w.refused},
                                {"inputTokens", w.input_tokens},
                                {"outputTokens", w.output_tokens},
                                {"tpotP50Seconds", w.tpot_p50},
                                {"tpotP99Seconds", w.tpot_p99},
                                {"ttftP99Seconds", w.ttft_p99},
                                {"gpuSeconds", w.gpu_seconds}});
    }
    for (const controllers::DecisionRecord& d : run.decisions) {
      one["decisions"].push_back(
          {{"seconds", d.time_s}, {"to", d.what}, {"gpus", d.gpus}, {"why", d.why}});
    }
    one["holds"] = nlohmann::ordered_json::array();
    for (const controllers::HoldRecord& hold : run.holds) {
      one["holds"].push_back({{"reason", hold.reason},
                              {"times", hold.count},
                              {"firstSeconds", hold.first_s},
                              {"why", hold.why}});
    }
    root["policies"].push_back(std::move(one));
  }
  return root.dump(1) + "\n";
}

}  // namespace janus::cli
