#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>

#include "dataplane/weights/tensor.h"
#include "kernels/device/uploader.h"

namespace janus::dataplane {

// Copies of tensors in device memory, by their host address. Two sets with the same tensor share
// its copy.
using PlacedTensors = std::map<const void*, std::shared_ptr<const kernels::Buffer>>;

// Weights as a context's operations read them, and the memory they lie in. On the host the weights
// stay where they are.
template <class Weights>
struct Placed {
  Weights weights;
  PlacedTensors tensors;
  std::shared_ptr<kernels::Event> loaded;  // null: there was nothing to load

  // Queued: the steps' stream waits for the copies. Call it before queueing an operation that reads
  // them. The host does not wait.
  Status StreamWait(kernels::Context& context) const {
    return loaded != nullptr ? context.StreamWait(*loaded) : OkStatus();
  }
};

// Copies a set of tensors to the device, each once, while the uploader's context runs steps.
class TensorPlacer {
 public:
  // `known`, placed by the same uploader, is shared and not loaded again. Its host tensors must
  // still exist unchanged. Null: nothing is shared.
  TensorPlacer(kernels::Uploader& uploader, const PlacedTensors* known, std::stop_token stop,
               PlacedTensors& placed)
      : uploader_(uploader), known_(known), stop_(std::move(stop)), placed_(placed) {}

  // Moves a tensor of so many elements to the context; a null tensor stays null. Scales are handled
  // only for FfnTensors. ResourceExhausted: too little device memory. Cancelled: `stop` was
  // requested.
  Status Place(Tensor& tensor, int64_t elements);
  // An FFN of `hidden` and `intermediate`.
  Status Place(FfnTensors& ffn, int64_t hidden, int64_t intermediate);

 private:
  Status PlaceMatrix(Tensor& tensor, int64_t outputs, int64_t inputs);
  kernels::Uploader& uploader_;
  const PlacedTensors* const known_;
  const std::stop_token stop_;
  PlacedTensors& placed_;
};

}  // namespace janus::dataplane
