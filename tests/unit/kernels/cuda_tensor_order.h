#pragma once

// What tests of kernels on tensor cores may expect where they run. The host form of the tensor
// cores adds in the order of scalar loops, and counts bank conflicts of shared memory. A GPU's
// order is not specified.

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
