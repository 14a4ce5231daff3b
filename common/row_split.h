#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/topology.h"

namespace janus {

// Schedules large rounds (prompts), beside common/aebs.h for small ones. In large rounds an
// instance's time follows its rows, and an expert's rows may be split over its replicas. Costs are
// counted in rows. A replica that gets x > 0 rows costs its instance max(x, K), where K is the
// crossover of common/cost.h: reading the expert's weights takes as long as computing K rows. The
// goal is the split with the least cost of the busiest instance (MegaScale-Infer 6, but every
// replica that gets a row pays for its own read). Finding the optimum is NP-hard; docs/aebs.md
// tells how near this comes.
//
// The rows of an expert are cut in the order of the round. So instances that compute the same split
// from the same ids know which rows are theirs. A row's bits do not depend on where it is computed.
// Uses integers only, no clock, no allocation within a call, and bounded work: it is the
// specification of a device kernel.

// Larger crossovers have the same effect, because no round has that many rows.
inline constexpr int kMaxCrossoverRows = 65535;

// Buffers and results of calls for placements of up to so many experts, instances and replicas;
// sized once. Confined to one thread.
class RowSplitWorkspace {
 public:
  RowSplitWorkspace(int max_experts, int max_instances, int max_replicas);

  // Results of the last call. [E]: rows that chose an expert.
  std::span<const int32_t> rows_of_expert() const { return {rows_.data(), experts_}; }
  // [R] rows that a replica computes, in the order of LayerPlacement::replicas.
  std::span<const int32_t> rows_of_replica() const { return {share_.data(), replicas_}; }
  // [n]: cost of each instance, in rows.
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
  // For the search.
  std::vector<int32_t> saved_share_;  // [R]
  std::vector<int64_t> saved_cost_;   // [n]
  std::vector<int32_t> order_;        // [n] one expert's replicas by cost of their instance
  std::vector<int32_t> held_first_;   // [n+1]
  std::vector<int32_t> held_;         // [R] replicas that could hand rows on, by instance
  std::vector<uint16_t> expert_;      // [R]
  std::vector<uint8_t> seen_;         // [n]
  // For remapping.
  std::vector<int32_t> at_;    // [E] replica that takes the expert's next row
  std::vector<int32_t> left_;  // [E] rows that it still takes
};

// Counts the rows per expert. Every id is below `experts` (checked). Returns the largest count.
int32_t CountRows(std::span<const uint16_t> ids, int experts, RowSplitWorkspace& work);

// Splits the counted rows. Experts with one replica go there. Each of the others in turn, fewest
// replicas first, then by id, is "poured" over its replicas: over the s replicas on the instances
// of least cost (lowest rank among equals). Each share has at least K rows if there are enough
// rows, and the remaining rows level the instances' costs. s minimises the sum of the instances'
// squared costs. Pouring is repeated up to four times, each time with all other experts fixed.
// Finally the busiest instances hand rows on, directly or through others. It stops when the busiest
// one is within 1/512 of a lower bound of all splits. Every counted expert has a replica (checked);
// 1 <= crossover_rows <= kMaxCrossoverRows.
void SplitRows(const LayerPlacement& placement, int crossover_rows, RowSplitWorkspace& work);

// replicas[i] = where ids[i] is computed: an expert's first rows go to its first replica with a
// share, and so on.
void RemapToShares(const LayerPlacement& placement, std::span<const uint16_t> ids,
                   RowSplitWorkspace& work, std::span<Replica> replicas);

enum class Regime : uint8_t { kActivatedExperts, kRows };

// Whether a round of so many rows may be split: an expert has at most as many rows as the round has
// tokens.
constexpr bool MaySplitRows(SchedulingPolicy policy, int crossover_rows, int64_t rows) {
  return policy == SchedulingPolicy::kAebs && crossover_rows > 0 && rows > crossover_rows;
}

// Schedules a whole round, in the regime that its ids need. If no expert has more than
// `crossover_rows` rows, every share costs K. Then the fewest experts on the busiest instance are
// optimal, and rows are not split. Otherwise they are. If a round has too few tokens for that, rows
// are not even counted. crossover_rows 0: unknown. Then, and with every policy but
// kAebs, rows are never split. `draw`: of kRandom.
Regime ScheduleRound(SchedulingPolicy policy, int crossover_rows, const LayerPlacement& placement,
                     std::span<const uint16_t> ids, int top_k, AebsWorkspace& aebs,
                     RowSplitWorkspace& split, std::span<Replica> replicas, uint64_t draw = 0);

}  // namespace janus
