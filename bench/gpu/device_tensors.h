#pragma once

#include <vector>

#include "kernels/device/context.h"
#include "tests/support/tensor_maker.h"

namespace janus::bench {

// Random tensors in bfloat16 (biases in fp32), made in a GPU's memory from a seed: a model of tens
// of gigabytes in seconds. The context outlives it.
class DeviceTensors final : public dataplane::TensorMaker {
 public:
  DeviceTensors(kernels::Context& context, uint32_t seed) : context_(context), seed_(seed) {}

  // Small beside the scores, so that it leaves about as many experts activated as there are without
  // it, as trained ones do.
  dataplane::Tensor Bias(int size) override;

 private:
  dataplane::Tensor Fill(size_t count, float mean, float spread) override;
  template <class Number>
  Number* FillWith(size_t count, float mean, float spread);

  kernels::Context& context_;
  uint32_t seed_;  // of the next
  std::vector<kernels::Buffer> buffers_;
};

}  // namespace janus::bench
