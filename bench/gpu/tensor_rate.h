#pragma once

// The highest rate at which the tensor cores of this process's GPU multiply: launches that do only
// products, timed like other kernels. The computed peak assumes a clock that a GPU does not hold
// under load; it is only for comparison.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/dtype.h"

namespace janus::kernels::cuda {

// Queues about a millisecond of products of random numbers in this format, BFloat16 or Float8E4M3,
// with fp32 sums. Returns the number of operations; a multiplication with its addition counts as
// two. 0: this GPU has no such products, and nothing was queued. `out`: 4 bytes of memory,
// practically never written.
//
// On sm_90a, if the build has it, each multiprocessor runs wgmma of 64 rows by 256 columns in two
// warpgroups, with both operands in shared memory. Other GPUs run mma.sync over registers. On
// sm_100 this is slower than its tensor cores, but it is all that this build's kernels use there.
int64_t StartProducts(cudaStream_t stream, DType type, float* out);
// "wgmma" or "mma.sync".
const char* InstructionOfProducts();

// Operations per microsecond in bfloat16 at the GPU's nominal clock. A multiprocessor does 4,096
// per cycle from sm_90 on, 2,048 before.
double ComputedPeak();

}  // namespace janus::kernels::cuda
