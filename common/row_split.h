#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/topology.h"

namespace janus {

// The regime of large rounds (prompts), beside the one of common/aebs.h: there an instance's time
// follows its rows, and an expert's rows may be split over its replicas. Costs are counted in rows.
// A replica that gets x > 0 rows costs its instance max(x, K) of them, where K is the crossover of
// common/cost.h: reading the expert's weights takes as long as computing K rows. Wanted is the
// split whose busiest instance costs least (MegaScale-Infer 6, but every replica that gets a row
// pays its own read). Finding the best is NP-hard; docs/aebs.md says how near this comes.
//
// The rows of an expert are cut in the order of the round, so that instances that computed the same
// split from the same ids know which rows are theirs. A row's bits do not depend on where it is
// computed. Integers only, no clock, no allocation within a call, bounded work: the specification
// of a device kernel.

// Crossovers above say the same: a round has no so many rows.
inline constexpr int kMaxCrossoverRows = 65535;

// Buffers and results of calls for placements of up to so many experts, instances and replicas;
// sized once. Confined to one thread.
class RowSplitWorkspace {
 public:
  RowSplitWorkspace(int max_experts, int max_instances, int max_replicas);

  // Results of the last call. [E] rows that chose an expert.
  std::span<const int32_t> rows_of_expert() const { return {rows_.data(), experts_}; }
  // [R] rows that a replica computes, in the order of LayerPlacement::replicas.
  std::span<const int32_t> rows_of_replica() const { return {share_.data(), replicas_}; }
  // [n] what the busiest instance has most of.
  std::span<const int64_t> cost() const { return {cost_.data(), instances_}; }

 private:
  friend int32_t CountRows(std::span<const uint16_t> ids, int experts, RowSplitWorkspace& work);
  friend void SplitRows(const LayerPlacement& placement, int crossover_rows,
                        RowSplitWorkspace& work);
  friend void RemapToShares(const LayerPlacement& placement, std::span<const uint16_t> ids,
                            RowSplitWorkspace& work, std::span<Replica> replicas);
  friend class RowSplitter;

  size_t experts_ = 0;
  size_t instances_ = 0;
  size_t replicas_ = 0;
  std::vector<int32_t> rows_;   // [E+1], the last one catches invalid ids
  std::vector<int32_t> share_;  // [R]
  std::vector<int64_t> cost_;   // [n]
  // Of the search.
  std::vector<int32_t> saved_share_;  // [R]
  std::vector<int64_t> saved_cost_;   // [n]
  std::vector<int32_t> order_;        // [n] one expert's replicas by cost of their instance
  std::vector<int32_t> held_first_;   // [n+1]
  std::vector<int32_t> held_;         // [R] replicas that could hand rows on, by instance
  std::vector<uint16_t> expert_;      // [R]
  std::vector<uint8_t> seen_;         // [n]
  // Of remapping.
  std::vector<int32_t> at_;    // [E] replica that takes the expert's next row
  std::vector<int32_t> left_;  // [E] rows that it still takes
};

// Rows per expert. Every id is below `experts` (checked). Returns the most of any.
int32_t CountRows(std::span<const uint16_t> ids, int experts, RowSplitWorkspace& work);

// Splits what was counted. Experts with one replica go there. Then each of the others in turn,
// fewest replicas first, then id, is poured over its replicas: over the s of least cost (lowest
// rank among equals), no share below K where there are rows enough, the rest levelled; s such that
// the sum of the instances' squared costs is least. Pouring is repeated with all others as they
// are, up to four times. In the end the busiest instances hand rows on, if need be through others.
// Stops when the busiest is within 1/512 of a bound that no split goes below. Every counted expert
// has a replica (checked); 1 <= crossover_rows <= kMaxCrossoverRows.
void SplitRows(const LayerPlacement& placement, int crossover_rows, RowSplitWorkspace& work);

// replicas[i] = where ids[i] is computed: an expert's first rows go to its first replica that has a
// share, and so on.
void RemapToShares(const LayerPlacement& placement, std::span<const uint16_t> ids,
                   RowSplitWorkspace& work, std::span<Replica> replicas);

enum class Regime : uint8_t { kActivatedExperts, kRows };

// Whether a round of so many rows may be split at all: no expert has more rows than it has tokens.
constexpr bool MaySplitRows(SchedulingPolicy policy, int crossover_rows, int64_t rows) {
  return policy == SchedulingPolicy::kAebs && crossover_rows > 0 && rows > crossover_rows;
}

// A whole round, in the regime that its ids ask for: while no expert has more than `crossover_rows`
// rows, every share costs K, so the fewest experts on the busiest instance is the optimum, and
// nothing is split; beyond, rows are. A round of so few tokens is not even counted. 0: no crossover
// is known, and the paper's greedy knows no other regime: never by rows.
Regime ScheduleRound(SchedulingPolicy policy, int crossover_rows, const LayerPlacement& placement,
                     std::span<const uint16_t> ids, int top_k, AebsWorkspace& aebs,
                     RowSplitWorkspace& split, std::span<Replica> replicas);

}  // namespace janus
