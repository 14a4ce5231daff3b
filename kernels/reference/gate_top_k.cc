#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void GateTopKReference(const GateTopKArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    float* logits_e = a.logits + t * a.experts;
    for (int e = 0; e < a.experts; ++e) {
      double sum = 0.0;
      for (int64_t h = 0; h < a.hidden; ++h) {
        sum += static_cast<double>(ReadElement(a.x_rows[t], a.x_dtype, h)) *
               ReadElement(a.weight, a.weight_dtype, e * a.hidden + h);
      }
      logits_e[e] = static_cast<float>(sum);
    }
    // A NaN counts as the largest, so that ids stay distinct and the weights say what happened.
    const auto beats = [&](int a_id, int b_id) {
      const float x = logits_e[a_id];
      const float y = logits_e[b_id];
      if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && !std::isnan(y);
      return x > y;
    };
    const int size = a.experts / a.groups;
    const auto best_of = [&](int group) {
      int best = group * size;
      for (int e = best + 1; e < (group + 1) * size; ++e) {
        if (beats(e, best)) best = e;
      }
      return best;
    };
    // Open are the groups that fewer than top_groups others beat.
    const auto is_open = [&](int group) {
      int better = 0;
      for (int other = 0; other < a.groups; ++other) {
        const int theirs = best_of(other);
        const int ours = best_of(group);
        better +=
            other != group && (beats(theirs, ours) || (other < group && !beats(ours, theirs)));
      }
      return better < a.top_groups;
    };
    uint16_t* ids_k = a.ids + t * a.top_k;
    float* weights_k = a.weights + t * a.top_k;
    for (int j = 0; j < a.top_k; ++j) {
      int best = -1;
      for (int e = 0; e < a.experts; ++e) {
        bool taken = false;
        for (int i = 0; i < j; ++i) taken |= ids_k[i] == e;
        if (taken || !is_open(e / size)) continue;
        if (best < 0 || beats(e, best)) best = e;
      }
      ids_k[j] = static_cast<uint16_t>(best);
    }
    const double largest = logits_e[ids_k[0]];
    double total = 0.0;
    double kept = 0.0;
    for (int e = 0; e < a.experts; ++e) total += std::exp(logits_e[e] - largest);
    for (int j = 0; j < a.top_k; ++j) kept += std::exp(logits_e[ids_k[j]] - largest);
    for (int j = 0; j < a.top_k; ++j) {
      const double p = std::exp(logits_e[ids_k[j]] - largest) / (a.renormalize ? kept : total);
      weights_k[j] = static_cast<float>(p * a.weight_scale);
    }
  }
}

}  // namespace janus::kernels
