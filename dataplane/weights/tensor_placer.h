#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>

#include "dataplane/weights/tensor.h"
#include "kernels/device/uploader.h"

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

  // Queued: the stream of the steps waits for the copies. Call it before an operation that reads
  // them is queued. The host does not wait.
  Status StreamWait(kernels::Context& context) const {
    return loaded != nullptr ? context.StreamWait(*loaded) : OkStatus();
  }
};

// Makes a set of tensors the device's, each loaded once, beside the steps of the uploader's
// context.
class TensorPlacer {
 public:
  // What is in `known`, by the same uploader, is shared and not loaded again; its host tensors must
  // not have changed, or gone, since. Null: nothing is.
  TensorPlacer(kernels::Uploader& uploader, const PlacedTensors* known, std::stop_token stop,
               PlacedTensors& placed)
      : uploader_(uploader), known_(known), stop_(std::move(stop)), placed_(placed) {}

  // Makes a tensor of so many elements one of the context; a null tensor stays null. Scales are
  // FfnTensors' alone. ResourceExhausted: the device's memory is short. Cancelled: `stop` was
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
