// GPU-hours and attainment of every way to scale on real workloads, and how far the simulation
// itself can be trusted: every figure of docs/simulation.md. Nothing is tuned on what it prints of
// R1 and of the last seven days of m-large, which only judge; azure and the first seven days were
// looked at while policies were written.
//
// simulate_bench [azure|r1|prompts|mlarge-first|mlarge-last|room|granule|perturbed|weights|figure9
//                 |speed]...

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/simulate/command.h"

namespace janus::bench {
namespace {

using cli::SimulateOptions;

const std::string kTraces = JANUS_SOURCE_DIR "/data/traces/";  // NOLINT: a path

// Of the processor, so that it says the same on a machine that others use.
double CpuSeconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void Run(const std::string& what, const SimulateOptions& options) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  const Result<std::string> text = cli::Simulate(options, {});
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  std::printf("\n== %s (%.1f s of CPU, %ld MB at most so far)\n%s", what.c_str(),
              CpuSeconds(after) - CpuSeconds(before), after.ru_maxrss / 1024,
              text.ok() ? text->c_str() : (text.status().ToString() + "\n").c_str());
  std::fflush(stdout);
}

struct Workload {
  const char* name;
  const char* trace;
  // Requests that a row stands for: such that copies of the whole model peak near 128 GPUs, and
  // ours never falls below three instances above the fewest that hold the model.
  double scale;
};
constexpr Workload kAzure = {"Azure conversation, 58 min", "azure2023_conv.csv.gz", 80};
constexpr Workload kR1 = {"ServeGen R1, 24 h", "servegen_deepseek_r1_div2", 8};
constexpr Workload kMLarge = {"ServeGen m-large", "servegen_mlarge_div400", 400};

SimulateOptions Make(const Workload& workload, bool is_v3, bool prefill_elsewhere) {
  SimulateOptions options;
  options.setting.model = is_v3 ? "deepseek-v3" : "deepseek-v2";
  options.setting.attention_hardware = options.setting.expert_hardware = "H200";
  options.demand.trace = kTraces + workload.trace;
  options.demand.scale = workload.scale;
  options.demand.prefill_elsewhere = prefill_elsewhere;
  options.scaling.interval_seconds = 60;
  return options;
}

// Decoding alone, as the papers measure it.
void Policies(const Workload& workload, const std::vector<std::string>& policies,
              double from_hours = 0, double hours = 0) {
  for (const bool is_v3 : {true, false}) {
    SimulateOptions options = Make(workload, is_v3, true);
    options.demand.from_hours = from_hours;
    options.demand.hours = hours;
    if (hours > 0) options.demand.max_weight = 400;  // days: see Weights
    options.policies = policies;
    Run(workload.name, options);
  }
}

const std::vector<std::string> kAllButOracle = {"ours", "disagg", "sglang", "whole",
                                                "hpa",  "wva",    "dynamo", "static"};

// Prompts in the same steps, which MoEService's limit of 256 sequences leaves room for.
void Prompts() {
  for (const bool is_v3 : {true, false}) {
    SimulateOptions options = Make(kR1, is_v3, false);
    options.scaling.max_batch_per_attention = 256;
    options.policies = {"ours", "whole"};
    Run("R1 with its prompts, 256 sequences", options);
  }
}

// What room for bursts costs and gives.
void Room() {
  for (const double most_burst : {1.0, 4.0}) {
    SimulateOptions options = Make(kMLarge, true, true);
    options.demand.max_weight = 400;
    options.demand.hours = 168;
    options.scaling.most_burst = most_burst;
    options.policies = {"ours"};
    Run(most_burst > 1 ? "m-large, room for bursts" : "m-large, no room for bursts", options);
  }
}

// JANUS Fig. 9 on its terms as far as they are stated: H100, TPOT 200 ms, 48 hours with a daily
// cycle, decisions every 30 minutes.
void Figure9() {
  for (const int sequences : {256, 1024}) {
    for (const double interval : {1800.0, 15.0}) {
      SimulateOptions options = Make(kMLarge, false, true);
      options.setting.attention_hardware = options.setting.expert_hardware = "H100";
      options.demand.scale = 60;
      options.demand.hours = 48;
      options.scaling.tpot.seconds = 0.2;
      options.scaling.max_batch_per_attention = sequences;
      options.scaling.interval_seconds = interval;
      options.policies = {"ours", "sglang"};
      Run("JANUS Fig. 9, at most " + std::to_string(sequences) +
              " sequences, ours deciding every " + std::to_string(static_cast<int>(interval)) +
              " s; the paper: 25 % below sglang",
          options);
    }
  }
}

// One day.
void Weights() {
  for (const int weight : {400, 100, 20}) {
    SimulateOptions options = Make(kMLarge, true, true);
    options.demand.max_weight = weight;
    options.demand.hours = 24;
    options.policies = {"ours"};
    Run("one day of m-large, weights of at most " + std::to_string(weight), options);
  }
}

void Granule() {
  for (const int instances : {1, 2, 4, 8}) {
    SimulateOptions options = Make(kR1, true, true);
    options.scaling.attention.instances_per_pod = instances;
    options.scaling.experts.instances_per_pod = instances;
    options.policies = {"ours"};
    Run("R1, " + std::to_string(instances) + " instances per pod", options);
  }
}

void Perturbed() {
  for (const bool is_learning : {false, true}) {
    for (const double factor : {0.8, 1.2}) {
      for (const std::string term : {"attention", "experts", "exchange", "all"}) {
        SimulateOptions options = Make(kR1, true, true);
        options.policies = {"ours"};
        options.scaling.is_learning = is_learning;
        const bool all = term == "all";
        if (all || term == "attention") options.truth.attention = factor;
        if (all || term == "experts") options.truth.experts = factor;
        if (all || term == "exchange") options.truth.exchange = factor;
        Run("R1, true times of " + term + (factor < 1 ? " x 0.8" : " x 1.2") +
                (is_learning ? ", re-estimated" : ", never re-estimated"),
            options);
      }
    }
  }
}

void Speed() {
  SimulateOptions options = Make(kMLarge, true, true);
  options.demand.max_weight = 400;
  options.policies = {"ours"};
  Run("14 days, 592,058 rows, one policy; goal 20 s and 500 MB", options);
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus::bench;  // NOLINT: main
  const std::vector<std::string> asked(argv + 1, argv + argc);
  const std::vector<std::pair<std::string, std::function<void()>>> sections = {
      {"azure", [] { Policies(kAzure, {}); }},
      {"r1", [] { Policies(kR1, kAllButOracle); }},
      {"prompts", Prompts},
      {"mlarge-first", [] { Policies(kMLarge, kAllButOracle, 0, 168); }},
      {"mlarge-last", [] { Policies(kMLarge, kAllButOracle, 168, 168); }},
      {"room", Room},
      {"granule", Granule},
      {"perturbed", Perturbed},
      {"weights", Weights},
      {"figure9", Figure9},
      {"speed", Speed}};
  for (const std::string& name : asked) {
    if (std::ranges::find(sections, name, [](const auto& one) { return one.first; }) ==
        sections.end()) {
      std::fprintf(stderr, "simulate_bench: no section '%s'; there are", name.c_str());
      for (const auto& section : sections) std::fprintf(stderr, " %s", section.first.c_str());
      std::fprintf(stderr, "\n");
      return 2;
    }
  }
  for (const auto& [name, run] : sections) {
    if (asked.empty() || std::ranges::find(asked, name) != asked.end()) run();
  }
}
