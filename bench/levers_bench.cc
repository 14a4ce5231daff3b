// The value of each way to exchange rows: GPU-hours and attainment of our policy on three workloads
// with DeepSeek-V3 on H200, with one pool and with up to eight. It shows which improvement of the
// data plane would gain most.
//
// levers_bench [--only WORD]
//   --only   levers with the word in their names

#include <cstdio>
#include <string>
#include <vector>

#include "bench/flags.h"
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
  // What passes between the instances of a node takes no time, as if it overlapped the network.
  bool is_free_inside = false;
};
// The numerics are the user's choice when the service is created. They are fixed in a run.
void Fp8(PredictorOptions& o) {
  o.wires = {WireFormat::kFp8};
}
void Sums(PredictorOptions& o, int bits) {
  o.sums = {SumRule::kFixedPoint};
  o.sum_bits = bits;
}
void Wide(PredictorOptions& o, int attention_gpus, int expert_gpus) {
  o = WithAllModes(o);
  o.tp_attention = attention_gpus;
  o.tp_experts = expert_gpus;
}
const Lever kLevers[] = {
    {"Direct alone", [](PredictorOptions& o) { o.modes = {ExchangeMode::kDirect}; }},
    {"as served without options", [](PredictorOptions&) {}},
    {"sums of 32 bits", [](PredictorOptions& o) { Sums(o, 32); }},
    {"sums of 24 bits", [](PredictorOptions& o) { Sums(o, 24); }},
    {"fp8", Fp8},
    {"fp8 rows, sums of 24 bits",
     [](PredictorOptions& o) {
       Fp8(o);
       Sums(o, 24);
     }},
    {"gate on attention (not served on GPUs)",
     [](PredictorOptions& o) {
       o.gates = {GateSide::kExperts, GateSide::kAttention};
     }},
    {"gate on attention, fp8",
     [](PredictorOptions& o) {
       Fp8(o);
       o.gates = {GateSide::kExperts, GateSide::kAttention};
     }},
    {"all, chosen at any time", [](PredictorOptions& o) { o = WithAllModes(o); }},
    {"fp8, free inside nodes", Fp8, 1, true},
    {"all, free inside nodes", [](PredictorOptions& o) { o = WithAllModes(o); }, 1, true},
    {"all, and a free exchange", [](PredictorOptions& o) { o = WithAllModes(o); }, 1e-3},
    // Tensor parallelism, which no version serves. Each GPU of an attention instance has all
    // latents of its sequences and a share of the heads.
    {"all, 2 GPUs per attention instance", [](PredictorOptions& o) { Wide(o, 2, 1); }},
    {"all, 2 GPUs per expert instance", [](PredictorOptions& o) { Wide(o, 1, 2); }},
    {"all, 2 GPUs per instance", [](PredictorOptions& o) { Wide(o, 2, 2); }},
    {"all, 8 GPUs per expert instance", [](PredictorOptions& o) { Wide(o, 1, 8); }},
};

void SetFreeInside(Setting& setting) {
  for (DeviceCosts* device : {&setting.attention, &setting.experts}) {
    device->dispatch.inner_bytes_per_second = device->combine.inner_bytes_per_second = 1e18;
    device->all_gather = {{0, 0, 1e18}, {0, 0, 1e18}};
  }
}

int Main(const std::vector<std::string>& args) {
  std::string only;
  if (!TakeFlags("levers_bench", args, {Flag{"--only", "a text", [&](std::string_view value) {
                                               only = value;
                                               return true;
                                             }}})) {
    return 2;
  }
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
    if (std::string(lever.name).find(only) == std::string::npos) continue;
    for (const int pools : {1, 8}) {
      std::printf("| %s | %d |", lever.name, pools);
      for (const auto& workload : requests) {
        Comparison comparison;
        comparison.belief = Perturbed(*setting, {1, 1, lever.exchange});
        if (lever.is_free_inside) SetFreeInside(comparison.belief);
        comparison.truth = comparison.belief;
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

int main(int argc, char** argv) {
  return janus::bench::Main({argv + 1, argv + argc});
}
