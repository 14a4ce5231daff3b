#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace janus::controllers {

// The synthetic routing of published MoE timings (ai-dynamo/aiconfigurator, collector of the MoE
// layer in decode). Rows per expert follow a bounded power law with exponent `alpha`, scaled and
// rounded to tokens * top_k in all. The timed instance is the one with most rows. This only gives
// such timings their arguments; real routing is in controllers/routing.
struct PowerLawRouting {
  int tokens = 0;
  int experts = 0;
  int top_k = 0;
  int instances = 0;  // divides experts
  double alpha = 0;   // > 0, not 1
};

// Rows of the experts of the busiest instance, over `draws` draws, as (rows, expected number of
// experts with that many). Rows within 2 % of each other share an entry at their mean.
std::vector<std::pair<double, double>> RowsOfBusiestInstance(const PowerLawRouting& routing,
                                                             int draws, uint64_t seed);

// The balanced case of the same timings: every expert gets tokens * top_k / experts rows, rounded
// down. With too few tokens for that, each row goes to a different expert.
std::vector<std::pair<double, double>> BalancedRows(int tokens, int experts, int top_k,
                                                    int instances);

}  // namespace janus::controllers
