#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/model/description.h"
#include "dataplane/attention/weights.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Weights as a context's operations read them, and the memory they lie in. In the host's context
// the tensors stay where they are.
template <class Weights>
struct Placed {
  Weights weights;
  std::vector<kernels::Buffer> memory;
};

// Copies tensors into a context's memory, one that several have once.
class TensorPlacer {
 public:
  TensorPlacer(kernels::Context& context, std::vector<kernels::Buffer>& memory)
      : context_(context), memory_(memory) {}

  // Makes a tensor of so many elements one of the context; a null tensor stays null.
  // ResourceExhausted: the device's memory is short.
  Status Place(Tensor& tensor, int64_t elements);
  // An FFN of `hidden` and `intermediate`.
  Status Place(FfnTensors& ffn, int64_t hidden, int64_t intermediate);

 private:
  kernels::Context& context_;
  std::vector<kernels::Buffer>& memory_;
  std::map<const void*, const void*> placed_;
};

Result<Placed<AttentionWeights>> PlaceAttention(kernels::Context& context,
                                                const ModelDescription& model,
                                                const AttentionWeights& weights);

}  // namespace janus::dataplane
