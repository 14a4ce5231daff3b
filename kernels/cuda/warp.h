#pragma once

// What fast kernels are written against beside block.h: the 32 lanes of a warp, seen as a sequence
// of steps with a barrier of the warp after each, and what they compute together between the steps.
//
//   block.Warps([&](auto& warp) {
//     PerLane<uint32_t> load;
//     warp.Lanes([&](int lane) { load[lane] = loads[lane]; });
//     const uint32_t least = warp.Min([&](int lane) { return load[lane]; });
//   });
//
// The host form runs warps one after the other in an order drawn from the seed, and the lanes of a
// step likewise. Rules beside those of block.h, which hold for lanes and steps as they do for
// threads and phases:
//   1. What a lane keeps from step to step lies in a PerLane.
//   2. Code between steps is the same for all lanes. It takes words that the warp writes through
//      warp.Uniform. So every lane takes part in what is computed together; the host form ends the
//      process where that is asked for inside a step.
//   3. The function that is given to Ballot, Min, Max, Shuffle, Match and Exchange reads and does
//      not write; Match and Exchange have another that takes what came.

#include <cstdint>

#include "kernels/cuda/block.h"

#ifndef __CUDACC__
#include <bit>
#endif

namespace janus::kernels::cuda {

JANUS_DEVICE inline int CountBits(uint32_t word) {
#ifdef __CUDACC__
  return __popc(word);
#else
  return std::popcount(word);
#endif
}

// Of a word that is not 0.
JANUS_DEVICE inline int LowestBit(uint32_t word) {
#ifdef __CUDACC__
  return __ffs(static_cast<int>(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

JANUS_DEVICE constexpr bool HasBit(uint32_t word, int bit) {
  return (word >> bit & 1u) != 0;
}

// The bits below `bit`, which is below 32.
JANUS_DEVICE constexpr uint32_t BitsBelow(int bit) {
  return (1u << bit) - 1u;
}

}  // namespace janus::kernels::cuda
