#pragma once

// Fast kernels are written against this file and block.h: the 32 lanes of a warp run a sequence of
// steps with a barrier of the warp after each, and operations of the whole warp between the steps.
//
//   block.Warps([&](auto& warp) {
//     PerLane<uint32_t> load;
//     warp.Lanes([&](int lane) { load[lane] = loads[lane]; });
//     const uint32_t least = warp.Min([&](int lane) { return load[lane]; });
//   });
//
// The host form runs warps one after the other in an order drawn from the seed, and so it runs the
// lanes of a step. The rules of block.h for threads and phases hold for lanes and steps too. More
// rules:
//   1. What a lane keeps from step to step lies in a PerLane.
//   2. Code between steps is the same for all lanes, so every lane takes part in operations of the
//      warp. Inside a step these end the process in the host form. Words that the warp writes are
//      read through warp.Uniform.
//   3. The function that is given to Ballot, Min, Max, Shuffle, Match and Exchange reads and does
//      not write. Match and Exchange have another function, which receives the result.

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
