// Functions over one vector of numbers, for code outside the kernels and for tests.

#pragma once

#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// p[i] = e^((x[i] - shift) * scale)
void ExpOf(const float* x, float shift, float scale, float* p, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const V16 v = LoadUpTo(DType::kFloat32, x + i, count - i);
    StoreUpTo(DType::kFloat32, p + i, Exp((v - Set(shift)) * Set(scale)), count - i);
  }
}

// Largest of count > 0 numbers, or NaN if there is one among them.
float LargestOf(const float* x, int64_t count) {
  V16 largest = Set(-__builtin_inff());
  uint32_t nan = 0;
  for (int64_t i = 0; i < count; i += kLanes) {
    V16 v = LoadUpTo(DType::kFloat32, x + i, count - i);
    if (count - i < kLanes) {
      v = Blend((1u << (count - i)) - 1u, Set(-__builtin_inff()), v);
    }
    nan |= IsNan(v);
    largest = Max(largest, v);
  }
  return nan != 0 ? __builtin_nanf("") : MaxLanes(largest);
}

void CosSinOf(const float* x, float* cos, float* sin, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    V16 c;
    V16 s;
    CosSin(LoadUpTo(DType::kFloat32, x + i, count - i), &c, &s);
    StoreUpTo(DType::kFloat32, cos + i, c, count - i);
    StoreUpTo(DType::kFloat32, sin + i, s, count - i);
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
