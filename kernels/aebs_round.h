#pragma once

// The GPU schedules a round by itself, so that the experts do not wait for the host after the gate.
// The host needs the same schedule to lay out replies. Meanwhile it computes the schedule from the
// ids alone (common/aebs.h).

#include <cstddef>
#include <cstdint>

#include "common/aebs.h"
#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/placement_view.h"
#include "kernels/stream.h"

namespace janus::kernels {

struct RouteRoundArgs {
  // The rows of the round, [T] pointers in the order of (rank of the sender, row). Logits, ids,
  // weights and workspace lie in the device's memory, as everything else here does.
  GateTopKArgs gate;
  // Optional: a word with the number of valid rows of the T. The other rows may point to any row;
  // they are gated and then ignored. So one launch plan serves fewer rows.
  const int32_t* live_rows = nullptr;
  SchedulingPolicy policy = SchedulingPolicy::kAebs;  // or kAebsGreedy
  PlacementView placement;                            // of the layer
  int rank = 0;                                       // of this instance
  int slots = 0;                                      // C: that it has
  const ActiveExpert* tensors = nullptr;  // [C]: each slot's weights; no `gate`: it holds none
  // The first row of each sender, [senders], ascending from 0. A sender without rows has the next
  // sender's first row, or T. This instance writes its contributions to a sender one after the
  // other, by (row, top-k slot): the j-th to y[sender] + j * y_row_bytes.
  const int32_t* first_rows = nullptr;
  int senders = 0;
  std::byte* const* y = nullptr;  // [senders]
  int64_t y_row_bytes = 0;
  ActiveExpert* active = nullptr;         // [RoutedExperts]: activated ones first, then empty ones
  Contribution* contributions = nullptr;  // [T*k]: of each active one
  void* scratch = nullptr;                // RouteRoundScratchBytes, 64-byte aligned
  int64_t scratch_bytes = 0;
};

// Entries of `active`: as many as T rows may activate of C slots.
constexpr int64_t RoutedExperts(int64_t rows, int top_k, int slots) {
  return rows * top_k < slots ? rows * top_k : slots;
}
// The most ids, T*k, and slots of a call.
inline constexpr int64_t kMostRoutedIds = 32 << 10;
inline constexpr int kMostRoutedSlots = 1024;
inline constexpr int kMostRoutedSenders = 1024;
// What AEBS leaves behind.
constexpr int64_t RouteRoundScratchBytes(int64_t rows, int top_k, int experts, int instances) {
  return (rows * top_k * 4 + int64_t{experts} * 6 + int64_t{instances} * 4 + 8 + 63) / 64 * 64;
}

// GateTopK, then ScheduleActivatedExperts of the chosen ids, then the lists of the work of `rank`.
// Two launches if the gate has its fast form and room for all rows (cuda/gate.h). Unimplemented on
// the host, which schedules without kernels. InvalidArgument: as from GateTopK, a placement of
// another number of experts, more than kMostRoutedIds ids, kMostRoutedSlots slots or
// kMostRoutedSenders senders, or scratch that is too small.
Status RouteRound(const Stream& stream, const RouteRoundArgs& args);

}  // namespace janus::kernels
