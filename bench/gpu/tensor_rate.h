#pragma once

// What the tensor cores of this process's GPU multiply at the most: launches that do nothing else,
// to be timed as kernels are. The computed peak, of a clock that a GPU under load does not hold, is
// for comparison alone.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/dtype.h"

namespace janus::kernels::cuda {

// Queues about a millisecond of products of random numbers of that format, BFloat16 or Float8E4M3,
// with fp32 sums: how many operations they are, a multiplication with its addition being two. 0:
// this GPU has no such products, and nothing was queued. `out`: memory of 4 bytes, hardly ever
// written.
//
// On sm_90a, where the build has it, wgmma of 64 rows by 256 columns by two warpgroups on each
// multiprocessor, both operands in shared memory. Elsewhere mma.sync over registers: on sm_100
// less than its tensor cores can do, yet all that this build's kernels there use.
int64_t StartProducts(cudaStream_t stream, DType type, float* out);
// "wgmma" or "mma.sync".
const char* InstructionOfProducts();

// Operations a microsecond in bfloat16 at the GPU's own clock: of a multiprocessor 4,096 a cycle
// from sm_90 on, 2,048 before.
double ComputedPeak();

}  // namespace janus::kernels::cuda
