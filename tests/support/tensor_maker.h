#pragma once

#include <cmath>
#include <cstddef>

#include "common/check.h"
#include "dataplane/weights/attention_weights.h"

namespace janus::dataplane {

// Makes and owns the tensors of a random model, one after the other, in host or device memory.
class TensorMaker {
 public:
  virtual ~TensorMaker() = default;

  // [outputs, inputs], uniform with the variance that keeps a projection's scale, times `gain`.
  Tensor Matrix(int outputs, int inputs, float gain) {
    return Fill(static_cast<size_t>(outputs) * static_cast<size_t>(inputs), 0.0f,
                Bound(inputs, gain));
  }
  Tensor Norm(int size) { return Fill(static_cast<size_t>(size), 1.0f, 0.3f); }

  // The same in a number format with scales beside it.
  virtual Tensor ScaledMatrix(DType type, int /*outputs*/, int /*inputs*/, float /*gain*/) {
    JANUS_CHECK(false, ToString(type));
    return {};
  }
  // In Float32, with the size of the scores that it is added to.
  virtual Tensor Bias(int size) {
    JANUS_CHECK(false, size);
    return {};
  }

 protected:
  static float Bound(int inputs, float gain) {
    return gain * std::sqrt(3.0f / static_cast<float>(inputs));
  }
  // In the model's number format, uniform in mean - spread .. mean + spread.
  virtual Tensor Fill(size_t count, float mean, float spread) = 0;
};

}  // namespace janus::dataplane
