#pragma once

// AEBS on the device: collect, balance and remap, bit for bit what
// ScheduleActivatedExperts (common/aebs.h, the specification) gives for the same ids.

#include <cstdint>

#include "common/aebs.h"
#include "common/status.h"
#include "kernels/cuda/live_rows.h"
#include "kernels/cuda/plan.h"
#include "kernels/placement_view.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

// From so many ids on, collecting and remapping are spread over blocks.
inline constexpr int64_t kOneBlockIds = 32 << 10;
inline constexpr int kCollectBlocks = 64;

enum class ScheduleForm {
  kFast,   // up to 128 instances and as many experts as shared memory holds; else the plain one
  kPlain,  // what the fast one is held to
};

struct ScheduleExpertsArgs {
  SchedulingPolicy policy = SchedulingPolicy::kAebs;  // kAebs: exact; kAebsGreedy: the paper's
  PlacementView placement;
  const uint16_t* ids = nullptr;  // [count], T*k of a round
  int64_t count = 0;
  // The ids behind those that count get no replica.
  LiveRows live_rows = {};
  Replica* replicas = nullptr;       // [count]: where ids[i] runs
  Replica* replica_of = nullptr;     // [E]; nowhere for those not activated
  int32_t* load = nullptr;           // [n]: activated experts per instance
  uint16_t* activated = nullptr;     // [E]: the first *num_activated, ascending
  int32_t* num_activated = nullptr;  // one word
  // [kCollectBlocks*ceil(E/32)] for more than kOneBlockIds ids; without it one block takes them
  // all.
  uint32_t* partial = nullptr;
  ScheduleForm form = ScheduleForm::kFast;
};

// Shared memory of the plain form's one block, offsets in bytes.
struct ScheduleExpertsLayout {
  int64_t reach = 0;       // uint64[n,mask_words]
  int64_t seen = 0;        // uint64[mask_words]
  int64_t is_active = 0;   // uint32[ceil(E/32)]: a bit per expert
  int64_t before = 0;      // uint32[ceil(E/32)+1]: activated experts before each word
  int64_t load = 0;        // uint32[n]
  int64_t replica_of = 0;  // Replica[E]
  int64_t activated = 0;   // uint16[E]
  int64_t previous = 0;    // uint16[n]
  int64_t queue = 0;       // uint16[n]
  int64_t bytes = 0;
  static constexpr ScheduleExpertsLayout For(int experts, int instances) {
    const int64_t e = experts;
    const int64_t n = instances;
    const int64_t mask_words = (n + 63) / 64;
    const int64_t words = (e + 31) / 32;
    ScheduleExpertsLayout l;
    l.seen = l.reach + 8 * n * mask_words;
    l.is_active = l.seen + 8 * mask_words;
    l.before = l.is_active + 4 * words;
    l.load = l.before + 4 * (words + 1);
    l.replica_of = l.load + 4 * n;
    l.activated = l.replica_of + 4 * e;
    l.previous = l.activated + 2 * e;
    l.queue = l.previous + 2 * n;
    l.bytes = l.queue + 2 * n;
    return l;
  }
};

inline constexpr int kScheduleExpertsThreads = 256;

// What AEBS must move besides the ids if every expert is activated. In: the placement, with one
// replica of each expert. Out: the choice per expert, the activated experts and the loads.
inline int64_t PlacementBytes(const PlacementView& p) {
  const int64_t in = 4 + 4 + 8 * p.mask_words + 2;
  const int64_t out = 4 + 2;
  return p.experts * (in + out) + 4 + 4 * int64_t{p.instances} + 4;
}

Plan PlanScheduleExperts(const ScheduleExpertsArgs& args);

// All that ScheduleExperts refuses, except for what does not fit in shared memory.
Status ValidateScheduleExperts(const ScheduleExpertsArgs& args);

// InvalidArgument: a null pointer, no expert or no instance, a count below 0, more experts and
// instances than a block's shared memory holds (4,096 experts: up to 384 instances; 256: 576).
// Ids beyond the experts are ignored and get no replica; so do ids of experts without one. There
// the specification ends the process, which a device cannot do.
Status ScheduleExperts(const Stream& stream, const ScheduleExpertsArgs& args);

}  // namespace janus::kernels::cuda
