#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {
namespace {

// A NaN counts as the largest, so that ids stay distinct and the weights say what happened.
bool Beats(float x, float y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && !std::isnan(y);
  return x > y;
}

}  // namespace

void GateTopKReference(const GateTopKArgs& a) {
  const bool is_sigmoid = a.score == GateScore::kSigmoid;
  for (int64_t t = 0; t < a.rows; ++t) {
    float* logits_e = a.logits + t * a.experts;
    for (int e = 0; e < a.experts; ++e) {
      double sum = 0.0;
      for (int64_t h = 0; h < a.hidden; ++h) {
        sum += static_cast<double>(ReadElement(a.x_rows[t], a.x_dtype, h)) *
               ReadElement(a.weight, a.weight_dtype, e * a.hidden + h);
      }
      if (!is_sigmoid && a.bias != nullptr) sum += a.bias[e];
      logits_e[e] = static_cast<float>(sum);
    }
    // The rank of an expert in the choice.
    std::array<float, kMaxExperts> choice_e;
    for (int e = 0; e < a.experts; ++e) {
      if (is_sigmoid) {
        logits_e[e] = static_cast<float>(1.0 / (1.0 + std::exp(-double{logits_e[e]})));
      }
      choice_e[static_cast<size_t>(e)] = is_sigmoid ? logits_e[e] + a.bias[e] : logits_e[e];
    }
    std::array<float, kMaxGroups> of_group;
    const int size = a.experts / a.groups;
    for (int group = 0; group < a.groups; ++group) {
      const float* const first = &choice_e[static_cast<size_t>(group * size)];
      float best[2];
      std::partial_sort_copy(first, first + size, best, best + 2, Beats);
      of_group[static_cast<size_t>(group)] = is_sigmoid && size > 1 ? best[0] + best[1] : best[0];
    }
    // A group is open if fewer than top_groups others beat it.
    const auto is_open = [&](int group) {
      const float ours = of_group[static_cast<size_t>(group)];
      int better = 0;
      for (int other = 0; other < a.groups; ++other) {
        const float theirs = of_group[static_cast<size_t>(other)];
        better += Beats(theirs, ours) || (other < group && !Beats(ours, theirs)) ? 1 : 0;
      }
      return better < a.top_groups;
    };
    const auto beats = [&](int e, int other) {
      return Beats(choice_e[static_cast<size_t>(e)], choice_e[static_cast<size_t>(other)]);
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
    if (is_sigmoid) {
      double sum = 0.0;
      for (int j = 0; j < a.top_k; ++j) sum += logits_e[ids_k[j]];
      for (int j = 0; j < a.top_k; ++j) {
        const double s = logits_e[ids_k[j]] / (a.renormalize ? sum + 1e-20 : 1.0);
        weights_k[j] = static_cast<float>(s * a.weight_scale);
      }
      continue;
    }
    if (a.score == GateScore::kSigmoidOfChosen) {
      for (int j = 0; j < a.top_k; ++j) {
        const double s = 1.0 / (1.0 + std::exp(-double{logits_e[ids_k[j]]}));
        weights_k[j] = static_cast<float>(s * a.weight_scale);
      }
      continue;
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
