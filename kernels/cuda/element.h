#pragma once

// Elements of the formats on either side. They may lie at any address that is a multiple of
// their own size, so nothing here loads more than one.

#include <cmath>
#include <cstdint>

#include "common/dtype.h"
#include "kernels/cuda/block.h"

namespace janus::kernels::cuda {

// Not for Mxfp4, where two elements share a byte.
JANUS_DEVICE inline float Load(const void* array, DType type, int64_t index) {
  if (type == DType::kFloat32) return static_cast<const float*>(array)[index];
  if (type == DType::kFloat8E4M3) return FromFloat8E4M3(static_cast<const uint8_t*>(array)[index]);
  const uint16_t bits = static_cast<const uint16_t*>(array)[index];
  return type == DType::kBFloat16 ? FromBFloat16(bits) : FromFloat16(bits);
}

// Stores `value` rounded to `type`, which is not Float8E4M3.
JANUS_DEVICE inline void Store(void* array, DType type, int64_t index, float value) {
  if (type == DType::kFloat32) {
    static_cast<float*>(array)[index] = value;
    return;
  }
  static_cast<uint16_t*>(array)[index] =
      type == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
}

JANUS_DEVICE inline float Sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

}  // namespace janus::kernels::cuda
