#pragma once

// How an operation is launched, as a pure function of its shape. It is tested without a GPU, and
// measured times are compared with its bytes and operations.

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/block.h"

namespace janus::kernels::cuda {

struct Plan {
  int64_t blocks = 0;  // grids have one axis
  int threads = 0;     // of a block
  int64_t shared_bytes = 0;
  // The least that the operation must move and compute. Each input is read once, including the
  // pointers of rows. 0 where only the device's memory says how much (attention, experts).
  int64_t bytes = 0;
  int64_t flops = 0;  // a multiplication and an addition are two
};

inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Whether a GPU takes the plan of a kernel that asks for so much shared memory (start.h).
constexpr bool CanLaunch(const Plan& plan, int64_t most_shared_bytes = kMaxSharedBytes) {
  return plan.blocks >= 1 && plan.blocks <= kMaxBlocks && plan.threads >= 32 &&
         plan.threads <= 1024 && plan.threads % 32 == 0 && plan.shared_bytes >= 0 &&
         plan.shared_bytes <= most_shared_bytes;
}

// One thread for each of `count` elements.
constexpr Plan PlanElements(int64_t count, int threads, int64_t bytes, int64_t flops) {
  return {CeilDiv(count, threads), threads, 0, bytes, flops};
}

}  // namespace janus::kernels::cuda
