#pragma once

// What tests of kernels on tensor cores may ask of where they run: the host form of the tensor
// cores adds in the order of scalar loops, the GPU's is not specified; and it counts what the GPU's
// shared memory would take turns for.

#include <cstdint>

#ifndef JANUS_TEST_ON_GPU
#include "kernels/cuda/tensor.h"
#endif

namespace janus::kernels::cuda {

#ifdef JANUS_TEST_ON_GPU
inline constexpr bool kSameOrder = false;
inline int64_t BankConflicts() {
  return 0;
}
#else
inline constexpr bool kSameOrder = true;
inline int64_t BankConflicts() {
  return host_bank_conflicts;
}
#endif

}  // namespace janus::kernels::cuda
