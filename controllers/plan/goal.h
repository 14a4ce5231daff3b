#pragma once

#include <cstdio>
#include <string>

#include "controllers/plan/traffic.h"

namespace janus::controllers {

// What is asked: latencies to keep, and either a load to carry at least cost or, with batch 0, the
// most throughput per cost.
struct PlanGoal {
  double tpot_seconds = 0.1;
  double batch = 0;  // sequences decoding at once, all attention instances
  // With a rate every plan that is told of says when first tokens come (first_token.h).
  Traffic traffic = {};
  // First tokens of that share of the traffic's requests are to come within so long; 0: whenever.
  double ttft_seconds = 0;
  double ttft_percentile = 0.95;
};

// What may be tried. No cap on the ratio of m to n.
struct PlanSpace {
  int max_attention_gpus = 128;
  int max_expert_gpus = 256;
  int max_gpus = 0;  // of both, and of a whole model; 0: no other limit
  int max_micro_batches = 4;
  int max_tensor_parallel = 8;
  int max_batch_per_attention = 1024;  // sequences
  bool is_survivable = false;          // n * C >= E without the largest pod
  int instances_per_pod = 1;           // the most of one pod, either role
  bool fills_pods = false;             // every pod has exactly so many, as in scaling mode External
  bool tries_fixed_point = false;      // the sum rule FixedPoint too
};

// Whether `a` answers the goal better than `b`: less cost for a batch, more tokens per second and
// cost without one; ties go to the lower TPOT, then the fewer GPUs. Plans of either kind.
template <class A, class B>
bool IsBetter(const PlanGoal& goal, const A& a, const B& b) {
  if (goal.batch > 0) {
    if (a.cost != b.cost) return a.cost < b.cost;
  } else if (a.tokens_per_second / a.cost != b.tokens_per_second / b.cost) {
    return a.tokens_per_second / a.cost > b.tokens_per_second / b.cost;
  }
  if (a.tpot_seconds != b.tpot_seconds) return a.tpot_seconds < b.tpot_seconds;
  return a.gpus < b.gpus;
}

// In words, what `best` does better.
template <class A, class B>
std::string WhyLost(const PlanGoal& goal, const A& plan, const B& best) {
  char text[128];
  const auto say = [&text](const char* format, double a, double b) {
    std::snprintf(text, sizeof(text), format, a, b);
    return std::string(text);
  };
  if (goal.batch == 0) {
    return say("%.1f tokens/s and cost, the chosen %.1f", plan.tokens_per_second / plan.cost,
               best.tokens_per_second / best.cost);
  }
  if (plan.cost > best.cost) return say("costs %.4g, the chosen %.4g", plan.cost, best.cost);
  return say("same cost, TPOT %.1f ms, the chosen %.1f ms", plan.tpot_seconds * 1e3,
             best.tpot_seconds * 1e3);
}

}  // namespace janus::controllers
