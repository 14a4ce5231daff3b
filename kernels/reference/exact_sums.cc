#include "common/fixed_point.h"
#include "kernels/backends.h"

namespace janus::kernels {

void AddTermsReference(const AddTermsArgs& a) {
  const int64_t size = a.bits / 8;
  const float per_unit = PowerOfTwo(-a.exponent);
  auto* const sums = static_cast<unsigned char*>(a.sums);
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t h = 0; h < a.hidden; ++h) {
      int32_t sum = 0;
      for (int64_t i = t == 0 ? 0 : a.ends[t - 1]; i < a.ends[t]; ++i) {
        bool clamped = false;
        const float term = a.terms[i * a.hidden + h];
        sum = AddFixed(sum, ToFixed(term, per_unit, a.limit, a.bits, clamped), a.bits);
        if (clamped && a.clamped != nullptr) ++*a.clamped;
      }
      StoreFixed(sums + (t * a.hidden + h) * size, sum, a.bits);
    }
  }
}

void CombineSumsReference(const CombineSumsArgs& a) {
  const int64_t size = a.bits / 8;
  const float unit = PowerOfTwo(a.exponent);
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t h = 0; h < a.hidden; ++h) {
      int32_t sum = 0;
      for (int j = 0; j < a.top_k; ++j) {
        const auto* const part = static_cast<const unsigned char*>(a.sums[t * a.top_k + j]);
        if (part != nullptr) sum = AddFixed(sum, LoadFixed(part + h * size, a.bits), a.bits);
      }
      const int64_t at = t * a.hidden + h;
      const float value = FromFixed(sum, unit, a.bits);
      a.y[at] = a.residual[at] + (a.local != nullptr ? value + a.local[at] : value);
    }
  }
}

}  // namespace janus::kernels
