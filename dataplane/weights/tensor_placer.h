#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>

#include "dataplane/weights/tensor.h"
#include "kernels/device/loader.h"

namespace janus::dataplane {

// Copies of tensors in a device's memory, by where the host has them; of two sets with one tensor
// each keeps it.
using PlacedTensors = std::map<const void*, std::shared_ptr<const kernels::Buffer>>;

// Weights as a context's operations read them, and the memory they lie in: on the host they are
// what they were made of, and stay where they are.
template <class Weights>
struct Placed {
  Weights weights;
  PlacedTensors tensors;
  std::shared_ptr<kernels::Event> loaded;  // null: there was nothing to load

  // Before the first operation that reads them is queued; waits for nothing.
  Status Follow(kernels::Context& context) const {
    return loaded != nullptr ? context.Follow(*loaded) : OkStatus();
  }
};

// Makes a set of tensors the device's, each loaded once, beside the steps of the loader's context.
class TensorPlacer {
 public:
  // What is in `known`, by the same loader, is shared and not loaded again; its host tensors must
  // not have changed, or gone, since. Null: nothing is.
  TensorPlacer(kernels::Loader& loader, const PlacedTensors* known, std::stop_token stop,
               PlacedTensors& placed)
      : loader_(loader), known_(known), stop_(std::move(stop)), placed_(placed) {}

  // Makes a tensor of so many elements one of the context; a null tensor stays null. Scales are
  // FfnTensors' alone. ResourceExhausted: the device's memory is short. Cancelled: `stop` was
  // requested.
  Status Place(Tensor& tensor, int64_t elements);
  // An FFN of `hidden` and `intermediate`.
  Status Place(FfnTensors& ffn, int64_t hidden, int64_t intermediate);

 private:
  Status PlaceMatrix(Tensor& tensor, int64_t outputs, int64_t inputs);
  kernels::Loader& loader_;
  const PlacedTensors* const known_;
  const std::stop_token stop_;
  PlacedTensors& placed_;
};

}  // namespace janus::dataplane
