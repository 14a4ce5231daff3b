// GPU-hours and attainment of every scaling policy on real workloads, and how far the simulation
// itself can be trusted. Prints figures of docs/simulation.md. That page says which figures
// were used while policies were written, and which only judge them.
//
// simulate_bench [azure|r1|r1-oracle|prompts|mlarge-first|mlarge-last|mlarge-oracle|room|budget
//                 |granule|perturbed|weights|figure9|speed]...

#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/sections.h"
#include "bench/simulate/table.h"
#include "cli/simulate/command.h"

namespace janus::bench {
namespace {

using cli::SimulateOptions;

const std::string kTraces = JANUS_SOURCE_DIR "/data/traces/";  // NOLINT: a path

// CPU time, which is the same on a machine with other users.
double CpuSeconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// False: the simulation failed.
bool Run(const std::string& what, SimulateOptions options) {
  options.json = true;
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  const Result<std::string> text = cli::Simulate(options, {});
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  std::printf("\n== %s (%.1f s of CPU, %ld MB at most so far)\n", what.c_str(),
              CpuSeconds(after) - CpuSeconds(before), after.ru_maxrss / 1024);
  const Result<Extent> extent = ExtentOf(options);
  const Status status = text.ok() ? extent.status() : text.status();
  if (status.ok()) {
    const auto report = nlohmann::json::parse(*text);
    PrintPolicies(report);
    PrintExtent(report, options.demand.scale, *extent);
  } else {
    std::printf("%s\n", status.ToString().c_str());
  }
  std::fflush(stdout);
  return status.ok();
}

struct Workload {
  const char* name;
  const char* trace;
  // Requests per row, chosen so that copies of each whole model take 128 GPUs in the busiest
  // minute, and ours never falls below three instances above the fewest that hold the model. Every
  // comparison prints both (Extent).
  double scale;
};
constexpr Workload kAzure = {"Azure conversation, 58 min", "azure2023_conv.csv.gz", 360};
constexpr Workload kR1 = {"ServeGen R1, 24 h", "servegen_deepseek_r1_div2", 12};
constexpr Workload kMLarge = {"ServeGen m-large", "servegen_mlarge_div400", 800};

SimulateOptions Make(const Workload& workload, bool is_v3, bool prefill_elsewhere) {
  SimulateOptions options;
  options.setting.model = is_v3 ? "deepseek-v3" : "deepseek-v2";
  options.setting.attention_hardware = options.setting.expert_hardware = "H200";
  options.demand.trace = kTraces + workload.trace;
  options.demand.scale = workload.scale;
  options.demand.prefill_elsewhere = prefill_elsewhere;
  options.scaling.interval_seconds = 60;
  options.all_modes = true;  // with only what this version serves, one pool carries none of these
                             // loads
  return options;
}

// Decoding alone, as the papers measure it: all hours, or `hours` hours from `from_hours` on.
SimulateOptions Decoding(const Workload& workload, bool is_v3, double from_hours, double hours) {
  SimulateOptions options = Make(workload, is_v3, true);
  options.demand.from_hours = from_hours;
  options.demand.hours = hours;
  if (hours > 0) options.demand.max_weight = 400;  // days: see Weights
  return options;
}

bool Policies(const Workload& workload, const std::vector<std::string>& policies,
              double from_hours = 0, double hours = 0) {
  bool is_sound = true;
  for (const bool is_v3 : {true, false}) {
    SimulateOptions options = Decoding(workload, is_v3, from_hours, hours);
    options.policies = policies;
    is_sound &= Run(workload.name, options);
  }
  return is_sound;
}

const std::vector<std::string> kAllButOracle = {"ours", "disagg", "sglang", "whole",
                                                "hpa",  "wva",    "dynamo", "static"};
// Run separately: it simulates a workload about sixty times.
const std::vector<std::string> kOracle = {"ours", "oracle"};

// Prompts in the same steps. MoEService's limit of 256 sequences leaves room for them.
bool Prompts() {
  bool is_sound = true;
  for (const bool is_v3 : {true, false}) {
    SimulateOptions options = Make(kR1, is_v3, false);
    options.scaling.max_batch_per_attention = 256;
    options.policies = {"ours", "whole"};
    is_sound &= Run("R1 with its prompts, 256 sequences", options);
  }
  return is_sound;
}

// Cost and benefit of room for bursts.
bool Room() {
  bool is_sound = true;
  for (const double most_burst : {1.0, 4.0}) {
    SimulateOptions options = Decoding(kMLarge, true, 0, 168);
    options.scaling.most_burst = most_burst;
    options.policies = {"ours"};
    is_sound &=
        Run(most_burst > 1 ? "m-large, room for bursts" : "m-large, no room for bursts", options);
  }
  return is_sound;
}

// Cost and benefit of adjusting aim and room to the attainment so far.
bool Budget() {
  struct Days {
    const char* name;
    Workload workload;
    double from_hours;
    double hours;
  };
  bool is_sound = true;
  for (const Days& days : {Days{"Azure", kAzure, 0, 0},
                           {"m-large, first", kMLarge, 0, 168},
                           {"R1", kR1, 0, 0},
                           {"m-large, last", kMLarge, 168, 168}}) {
    for (const bool is_v3 : {true, false}) {
      for (const bool is_budgeted : {false, true}) {
        SimulateOptions options = Decoding(days.workload, is_v3, days.from_hours, days.hours);
        options.scaling.is_budgeted = is_budgeted;
        options.policies = {"ours"};
        is_sound &=
            Run(std::string(days.name) + (is_budgeted ? ", error budget" : ", none"), options);
      }
    }
  }
  return is_sound;
}

// JANUS Fig. 9, with its settings as far as they are stated: H100, TPOT 200 ms, 48 hours with a
// daily cycle, decisions every 30 minutes.
bool Figure9() {
  bool is_sound = true;
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
      is_sound &=
          Run("JANUS Fig. 9, at most " + std::to_string(sequences) +
                  " sequences, ours deciding every " + std::to_string(static_cast<int>(interval)) +
                  " s; the paper: 25 % below sglang",
              options);
    }
  }
  return is_sound;
}

// Simulates one day with several weights.
bool Weights() {
  bool is_sound = true;
  for (const int weight : {400, 100, 10}) {
    SimulateOptions options = Make(kMLarge, true, true);
    options.demand.max_weight = weight;
    options.demand.hours = 24;
    options.policies = {"ours"};
    is_sound &= Run("one day of m-large, weights of at most " + std::to_string(weight), options);
  }
  return is_sound;
}

bool Granule() {
  bool is_sound = true;
  for (const int instances : {1, 2, 4, 8}) {
    SimulateOptions options = Make(kR1, true, true);
    options.scaling.attention.instances_per_pod = instances;
    options.scaling.experts.instances_per_pod = instances;
    options.policies = {"ours"};
    is_sound &= Run("R1, " + std::to_string(instances) + " instances per pod", options);
  }
  return is_sound;
}

bool Perturbed() {
  bool is_sound = true;
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
        is_sound &= Run("R1, true times of " + term + (factor < 1 ? " x 0.8" : " x 1.2") +
                            (is_learning ? ", re-estimated" : ", never re-estimated"),
                        options);
      }
    }
  }
  return is_sound;
}

bool Speed() {
  SimulateOptions options = Make(kMLarge, true, true);
  options.demand.scale = options.demand.max_weight = 400;
  options.policies = {"ours"};
  return Run("14 days, 592,058 rows, one policy; goal 20 s and 500 MB", options);
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus::bench;  // NOLINT: main
  return PrintSections("simulate_bench", {argv + 1, argv + argc},
                       {{"azure", [] { return Policies(kAzure, {}); }},
                        {"r1", [] { return Policies(kR1, kAllButOracle); }},
                        {"r1-oracle", [] { return Policies(kR1, kOracle); }},
                        {"prompts", Prompts},
                        {"mlarge-first", [] { return Policies(kMLarge, kAllButOracle, 0, 168); }},
                        {"mlarge-last", [] { return Policies(kMLarge, kAllButOracle, 168, 168); }},
                        {"mlarge-oracle", [] { return Policies(kMLarge, kOracle, 168, 168); }},
                        {"room", Room},
                        {"budget", Budget},
                        {"granule", Granule},
                        {"perturbed", Perturbed},
                        {"weights", Weights},
                        {"figure9", Figure9},
                        {"speed", Speed}});
}
