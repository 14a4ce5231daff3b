#include "bench/gpu/device_tensors.h"

#include <cuda_runtime.h>

#include "common/philox.h"

namespace janus::bench {
namespace {

constexpr int kThreads = 256;

// Each thread fills 8 elements; the buffer is a multiple of that.
__device__ void Store(uint16_t& to, float value) {
  to = ToBFloat16(value);
}
__device__ void Store(float& to, float value) {
  to = value;
}
template <class Number>
__global__ void FillUniform(Number* to, int64_t eights, float mean, float spread, uint32_t seed) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= eights) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {seed, 0});
  for (int j = 0; j < 8; ++j) {
    const auto half = static_cast<float>(words[j / 2] >> (16 * (j % 2)) & 0xFFFFu);
    Store(to[8 * i + j], mean + (half / 32768.0f - 1.0f) * spread);
  }
}

}  // namespace

template <class Number>
Number* DeviceTensors::FillWith(size_t count, float mean, float spread) {
  const size_t eights = (count + 7) / 8;
  Result<kernels::Buffer> taken = context_.Allocate(eights * 8 * sizeof(Number));
  JANUS_CHECK(taken.ok(), taken.status().ToString());
  buffers_.push_back(*std::move(taken));
  auto* const to = buffers_.back().as<Number>();
  const auto blocks = static_cast<unsigned>((eights + kThreads - 1) / kThreads);
  FillUniform<<<blocks, kThreads, 0, static_cast<cudaStream_t>(context_.stream().native)>>>(
      to, static_cast<int64_t>(eights), mean, spread, seed_++);
  JANUS_CHECK(cudaGetLastError() == cudaSuccess, count);
  return to;
}

dataplane::Tensor DeviceTensors::Fill(size_t count, float mean, float spread) {
  return {FillWith<uint16_t>(count, mean, spread), DType::kBFloat16, nullptr};
}

dataplane::Tensor DeviceTensors::Bias(int size) {
  return {FillWith<float>(static_cast<size_t>(size), 0.0f, 0.05f), DType::kFloat32, nullptr};
}

}  // namespace janus::bench
