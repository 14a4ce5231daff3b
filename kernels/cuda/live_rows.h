#pragma once

#include <cstdint>

#include "kernels/cuda/block.h"

namespace janus::kernels::cuda {

// How many rows of a call there are, the first ones, where only the device knows: a launch that was
// planned, or recorded, for more then serves fewer.
struct LiveRows {
  const int32_t* rows = nullptr;  // a word of the device; null: all of the call's
  int top_k = 0;

  // Of `count` ids, top_k a row. On the device.
  JANUS_DEVICE int64_t Ids(int64_t count) const {
    if (rows == nullptr) return count;
    const int64_t live = int64_t{*rows} * top_k;
    return live < count ? live : count;
  }
};

}  // namespace janus::kernels::cuda
