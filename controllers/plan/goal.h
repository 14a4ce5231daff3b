#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "controllers/plan/setting.h"
#include "controllers/plan/traffic.h"

namespace janus::controllers {

// The goal of a plan: latencies to keep, and a load to carry at least cost (sequences at once, or
// traffic). Without a load: the most throughput per cost.
struct PlanGoal {
  double tpot_seconds = 0.1;
  double batch = 0;  // sequences decoding at once, over all pools
  // With a rate, every returned plan has the time to the first token (first_token.h).
  Traffic traffic = {};
  // This share of the traffic's requests must get the first token within ttft_seconds; 0: no
  // target.
  double ttft_seconds = 0;
  double ttft_percentile = 0.95;

  bool HasTraffic() const { return traffic.requests_per_second > 0; }
  bool HasLoad() const { return batch > 0 || HasTraffic(); }
};

// Values that the user fixes. Values that are not fixed are searched within the space.
struct PlanPins {
  std::optional<int> attention;  // m, of a pool
  std::optional<int> experts;    // n, of a pool
  std::optional<int> pools;
  std::optional<int> micro_batches;
  std::optional<int> tp_attention;
  std::optional<int> tp_experts;
  std::optional<ExchangeMode> mode;
  std::optional<GateSide> gate;
  std::optional<SumRule> sum;
  std::optional<WireFormat> wire;
  std::string whole;  // the strategy of the whole model, as NameOf says it: "DP8 EP8 PP2"
};

// What a search may try. The ratio of m to n is not limited.
struct PlanSpace {
  int max_attention_gpus = 128;
  int max_expert_gpus = 256;
  int max_gpus = 0;  // of both roles, and of a whole model; 0: no other limit
  int max_micro_batches = 4;
  int max_tensor_parallel = 8;
  int max_batch_per_attention = 1024;  // sequences
  bool is_survivable = false;          // n * C >= E without the largest pod
  int instances_per_pod = 1;           // the largest number in a pod of either role
  bool fills_pods = false;             // every pod is full, as in scaling mode External
  bool tries_fixed_point = false;      // also the sum rule FixedPoint
  int sum_bits = 32;                   // of an element of its sums; 24 or 32
  bool tries_fp8 = false;              // also rows and contributions in fp8
  bool is_served_only = false;         // only plans that this version can run (IsServed)
  int max_pools = 1;                   // copies of mAnE side by side
  PlanPins pins = {};
};

// Whether `a` meets the goal better than `b`: less cost for a load; without a load, more tokens per
// second and cost. Then the lower TPOT wins, then fewer GPUs. Works for plans of either kind.
template <class A, class B>
bool IsBetter(const PlanGoal& goal, const A& a, const B& b) {
  if (goal.HasLoad()) {
    if (a.cost != b.cost) return a.cost < b.cost;
  } else if (a.tokens_per_second / a.cost != b.tokens_per_second / b.cost) {
    return a.tokens_per_second / a.cost > b.tokens_per_second / b.cost;
  }
  if (a.tpot_seconds != b.tpot_seconds) return a.tpot_seconds < b.tpot_seconds;
  return a.gpus < b.gpus;
}

// What `best` does better, in words.
template <class A, class B>
std::string WhyLost(const PlanGoal& goal, const A& plan, const B& best) {
  char text[128];
  const auto say = [&text](const char* format, double a, double b) {
    std::snprintf(text, sizeof(text), format, a, b);
    return std::string(text);
  };
  if (!goal.HasLoad()) {
    return say("%.1f tokens/s per cost; the chosen plan has %.1f",
               plan.tokens_per_second / plan.cost, best.tokens_per_second / best.cost);
  }
  if (plan.cost > best.cost)
    return say("costs %.4g; the chosen plan costs %.4g", plan.cost, best.cost);
  return say("same cost, TPOT %.1f ms; the chosen plan has %.1f ms", plan.tpot_seconds * 1e3,
             best.tpot_seconds * 1e3);
}

}  // namespace janus::controllers
