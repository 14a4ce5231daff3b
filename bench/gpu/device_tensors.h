#pragma once

#include <vector>

#include "kernels/device/context.h"
#include "tests/support/tensor_maker.h"

namespace janus::bench {

// Random tensors in bfloat16 (biases in fp32), made in the GPU's memory from a seed. A model of
// tens of gigabytes takes seconds. The context must outlive it.
class DeviceTensors final : public dataplane::TensorMaker {
 public:
  DeviceTensors(kernels::Context& context, uint32_t seed) : context_(context), seed_(seed) {}

  // The bias is small beside the scores, as in trained models: it hardly changes how many experts
  // are activated.
  dataplane::Tensor Bias(int size) override;

 private:
  dataplane::Tensor Fill(size_t count, float mean, float spread) override;
  template <class Number>
  Number* FillWith(size_t count, float mean, float spread);

  kernels::Context& context_;
  uint32_t seed_;  // of the next tensor
  std::vector<kernels::Buffer> buffers_;
};

}  // namespace janus::bench
