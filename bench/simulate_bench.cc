// GPU-hours and attainment of every way to scale on real workloads, and how far the simulation
// itself can be trusted. Nothing is tuned on what it prints: azure and the first seven days of
// m-large were looked at while policies were written, R1 and the last seven days only judge.
//
// simulate_bench [azure|r1|mlarge-first|mlarge-last|granule|perturbed|weights|figure9|speed]...

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/simulate/command.h"

namespace janus::bench {
namespace {

using cli::SimulateOptions;

const std::string kTraces = JANUS_SOURCE_DIR "/data/traces/";  // NOLINT: a path

void Run(const std::string& what, const SimulateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::string> text = cli::Simulate(options, {});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("\n== %s (%.1f s, %ld MB at most so far)\n%s", what.c_str(), seconds,
              usage.ru_maxrss / 1024,
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

// Every policy, decoding alone as the papers measure it and with prompts in the same steps.
void EveryPolicy(const Workload& workload, double from_hours, double hours) {
  for (const bool is_v3 : {false, true}) {
    for (const bool prefill_elsewhere : {true, false}) {
      SimulateOptions options = Make(workload, is_v3, prefill_elsewhere);
      options.demand.from_hours = from_hours;
      options.demand.hours = hours;
      Run(workload.name, options);
    }
  }
}

// JANUS Fig. 9 on its terms as far as they are stated: H100, TPOT 200 ms, 48 hours with a daily
// cycle, decisions every 30 minutes.
void Figure9() {
  for (const double interval : {1800.0, 15.0}) {
    SimulateOptions options = Make(kMLarge, false, true);
    options.setting.attention_hardware = options.setting.expert_hardware = "H100";
    options.demand.scale = 60;
    options.demand.hours = 48;
    options.scaling.tpot.seconds = 0.2;
    options.scaling.max_batch_per_attention = 256;  // MoEService's default
    options.scaling.interval_seconds = interval;
    options.policies = {"ours", "sglang"};
    Run("JANUS Fig. 9, ours deciding every " + std::to_string(static_cast<int>(interval)) +
            " s; the paper: 25 % below sglang",
        options);
  }
}

// One day.
void Weights() {
  for (const int weight : {400, 100, 10}) {
    SimulateOptions options = Make(kMLarge, true, true);
    options.demand.max_weight = weight;
    options.demand.hours = 24;
    options.policies = {"ours", "whole"};
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
  const auto wanted = [&](const char* name) {
    return asked.empty() || std::ranges::find(asked, name) != asked.end();
  };
  if (wanted("azure")) EveryPolicy(kAzure, 0, 0);
  if (wanted("r1")) EveryPolicy(kR1, 0, 0);
  if (wanted("mlarge-first")) EveryPolicy(kMLarge, 0, 168);
  if (wanted("mlarge-last")) EveryPolicy(kMLarge, 168, 168);
  if (wanted("granule")) Granule();
  if (wanted("perturbed")) Perturbed();
  if (wanted("weights")) Weights();
  if (wanted("figure9")) Figure9();
  if (wanted("speed")) Speed();
}
