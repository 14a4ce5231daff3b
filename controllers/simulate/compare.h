#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/oracle.h"

namespace janus::controllers {

struct PolicyName {
  std::string_view name;
  std::string_view what;
};
// All policies that can be simulated, in the order of reports.
inline constexpr std::array<PolicyName, 10> kPolicyNames = {{
    {"ours", "attention and experts apart, by Decide (docs/scaling.md)"},
    {"disagg", "JANUS's DisAgg: the same decision over whole nodes, replicas chosen at random"},
    {"sglang", "JANUS's SGLang: one instance of 16, 32 or 64 GPUs, decided every 30 min"},
    {"whole", "copies of the cheapest whole-model instance, by the same Decide"},
    {"ceil", "the same copies: ceil(demand / capacity)"},
    {"hpa", "the same copies by KV use and queue length (horizontal pod autoscaler)"},
    {"wva", "the same copies by saturation, as llm-d's workload-variant-autoscaler"},
    {"dynamo", "the same copies: ceil(demand / capacity) every 180 s, +-1 every 5 s"},
    {"static", "the cheapest separated plan for the busiest 5 minutes, all the time"},
    {"oracle", "the cheapest schedule of separated plans, knowing every request"},
}};

struct Comparison {
  Setting belief;  // what policies assume; its context is taken from the requests
  Setting truth;   // what steps really take
  PredictorOptions predictor;
  // Targets, aim, bounds, granule, learning. Requests are judged by its targets.
  ScalingPolicy scaling;
  Machinery machinery;
  std::optional<Counts> first;  // what "ours" begins with; by default what the first minutes need
  double window_s = 600;
  OracleOptions oracle;  // attainment 0: that of "ours", or 99 % without it
  int oracle_levels = 24;
  // GPUs of JANUS's SGLang instances.
  std::vector<int> sizes = {16, 32, 64};
  // How a copy of the whole model may run. Empty: data- and expert-parallel on 8, 16, 32 or 64
  // GPUs, and the best of every kind that a plan finds for the mean load on at most that many.
  std::vector<WholeConfiguration> wholes;
  // If a peer's rule misses the target's share of requests, it runs again with stricter thresholds
  // and target, until it attains it or nothing is left to try.
  bool tightens_peers = false;
  int node = 8;                       // instances in a node of "disagg"
  std::vector<std::string> policies;  // names of kPolicyNames; empty: all that can run
  std::function<bool()> should_stop;  // see SimulationOptions
};

// Runs the requests (ascending by arrival) under each policy, in kPolicyNames' order. The oracle is
// the cheaper of its search's result (searched_gpu_hours) and, if that attains the goal, our run:
// this is a schedule, too, for which the search's intervals may be too coarse. InvalidArgument: an
// unknown policy (the message names the known ones), no request, or an invalid scaling policy or
// device. FailedPrecondition: the model does not fit, or nothing keeps the target.
Result<std::vector<SimulationRun>> Compare(
    std::span<const SimulatedRequest> requests, const Comparison& comparison,
    const std::function<void(std::string_view policy, double share)>& progress);

}  // namespace janus::controllers
