#pragma once

// Checks whether a kernel's output can be right. The time of a kernel that gave NaN or nothing
// would have no meaning.

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "bench/gpu/stream_times.h"
#include "common/dtype.h"

namespace janus::kernels::cuda {

// Float32 or BFloat16 numbers in a GPU's memory.
struct Output {
  void* y = nullptr;
  int64_t count = 0;  // 0: not checked
  DType dtype = DType::kFloat32;
};

// Sets found[0] if a number is not finite, and found[1] if a number differs from the first.
template <class Bits, Bits kExponent>
static __global__ void Inspect(const Bits* y, int64_t count, uint32_t* found) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  const Bits first = y[0];
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if ((y[i] & kExponent) == kExponent) found[0] = 1;
    if (y[i] != first) found[1] = 1;
  }
}

// Fills the output with NaN, which stays wherever the kernel writes nothing.
inline void Poison(cudaStream_t stream, const Output& output) {
  const auto bytes = static_cast<size_t>(output.count * SizeOf(output.dtype));
  Check(cudaMemsetAsync(output.y, 0xFF, bytes, stream), "output");
}

// What is wrong with an output, after the work queued on the stream. Empty: all numbers are finite,
// and not all are the same.
inline std::string FaultOf(cudaStream_t stream, const Output& output) {
  uint32_t* found = nullptr;
  uint32_t is[2] = {};
  Check(cudaMalloc(reinterpret_cast<void**>(&found), sizeof is), "memory of the device");
  Check(cudaMemsetAsync(found, 0, sizeof is, stream), "output");
  if (output.dtype == DType::kFloat32) {
    Inspect<uint32_t, 0x7F800000u>
        <<<512, 256, 0, stream>>>(static_cast<const uint32_t*>(output.y), output.count, found);
  } else {
    Inspect<uint16_t, 0x7F80u>
        <<<512, 256, 0, stream>>>(static_cast<const uint16_t*>(output.y), output.count, found);
  }
  Check(cudaGetLastError(), "output");
  Check(cudaMemcpyAsync(is, found, sizeof is, cudaMemcpyDeviceToHost, stream), "output");
  Check(cudaStreamSynchronize(stream), "output");
  cudaFree(found);
  if (is[0] != 0) return "not all of the output is finite";
  return is[1] != 0 ? "" : "all of the output is the same";
}

}  // namespace janus::kernels::cuda
