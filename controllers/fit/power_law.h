#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace janus::controllers {

// The synthetic routing that published MoE timings were taken with (ai-dynamo/aiconfigurator,
// collector of the MoE layer in decode): rows per expert follow a bounded power law with exponent
// `alpha`, scaled and rounded to tokens * top_k in all, and the instance that got most rows is the
// one that was timed. Real routing is in controllers/routing; this only gives such timings their
// arguments.
struct PowerLawRouting {
  int tokens = 0;
  int experts = 0;
  int top_k = 0;
  int instances = 0;  // divides experts
  double alpha = 0;   // > 0, not 1
};

// Rows of the experts of the busiest instance, as (rows, expected number of experts that have so
// many), over `draws` draws. Rows within 2 % of each other share an entry at their mean.
std::vector<std::pair<double, double>> RowsOfBusiestInstance(const PowerLawRouting& routing,
                                                             int draws, uint64_t seed);

// The balanced case of the same timings: every expert tokens * top_k / experts rows, rounded down;
// fewer tokens than that takes give one row each to as many experts as there are rows.
std::vector<std::pair<double, double>> BalancedRows(int tokens, int experts, int top_k,
                                                    int instances);

}  // namespace janus::controllers
