#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void CombineSlotsReference(const CombineSlotsArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    const void* const* slots = a.top_k == 0 ? nullptr : a.contributions + t * a.top_k;
    for (int64_t h = 0; h < a.hidden; ++h) {
      float sum = a.top_k == 0 ? 0.0f : ReadElement(slots[0], a.dtype, h);
      for (int j = 1; j < a.top_k; ++j) sum += ReadElement(slots[j], a.dtype, h);
      if (a.local != nullptr) {
        const float local = a.local[t * a.hidden + h];
        sum = a.top_k == 0 ? local : sum + local;
      }
      a.y[t * a.hidden + h] = a.residual[t * a.hidden + h] + sum;
    }
  }
}

}  // namespace janus::kernels
