// Gate: logits first, dealt over rows where there are enough, else over experts; then scores and
// top-k row by row.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/dot.h"

namespace janus::kernels::JANUS_ISA {
namespace {

void GateLogits(const GateTopKArgs& a, int part, int parts) {
  const DotBlockFn dot = DotBlockOf(a.x_dtype, a.weight_dtype);
  const bool has_bias = a.score == GateScore::kSoftmax && a.bias != nullptr;
  const int64_t w_row = a.hidden * Bytes(a.weight_dtype);
  const int64_t chunk = RowsPerChunk(a.hidden * Bytes(a.x_dtype));
  const int64_t all_blocks = CeilDiv(a.experts, kColumns);
  const bool by_columns = all_blocks >= parts || a.rows < parts;
  const Span blocks = by_columns ? Share(all_blocks, part, parts) : Span{0, all_blocks};
  const Span rows = by_columns ? Span{0, a.rows} : Share(a.rows, part, parts);
  alignas(64) float dots[kRowChunk * kColumns] = {};
  const char* x[kRowChunk];
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t column = block * kColumns;
    const int64_t columns = Smaller(kColumns, a.experts - column);
    const char* w = static_cast<const char*>(a.weight) + column * w_row;
    for (int64_t row = rows.begin; row < rows.end; row += chunk) {
      const auto count = static_cast<int>(Smaller(chunk, rows.end - row));
      for (int m = 0; m < count; ++m) x[m] = static_cast<const char*>(a.x_rows[row + m]);
      dot(x, count, w, w_row, static_cast<int>(columns), a.hidden, nullptr, dots);
      for (int m = 0; m < count; ++m) {
        V16 logits = Load(dots + m * kColumns);
        if (has_bias) logits = logits + LoadUpTo(DType::kFloat32, a.bias + column, columns);
        StoreUpTo(DType::kFloat32, a.logits + (row + m) * a.experts + column, logits, columns);
      }
    }
  }
}

// Orders like the logit, a NaN above all; -0 equals +0; among equals the lower id is larger.
JANUS_INLINE uint64_t GateKey(float logit, int id) {
  uint32_t bits = 0;
  logit += 0.0f;
  std::memcpy(&bits, &logit, sizeof(bits));
  uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  if (logit != logit) order = 0xffffffffu;
  return uint64_t{order} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}

// The rank of expert e in the choice: its logit, or its score plus its bias.
JANUS_INLINE float GateChoice(const GateTopKArgs& a, const float* logits, int e) {
  return a.score == GateScore::kSigmoid ? logits[e] + a.bias[e] : logits[e];
}

// Of group g: its best logit, or the sum of its two best scores with their biases.
JANUS_INLINE float GroupScore(const GateTopKArgs& a, const float* logits, int g) {
  const int size = a.experts / a.groups;
  float best = GateChoice(a, logits, g * size);
  float second = -__builtin_inff();
  for (int e = g * size + 1; e < (g + 1) * size; ++e) {
    const float next = GateChoice(a, logits, e);
    if (GateKey(next, 0) > GateKey(best, 0)) {
      second = best;
      best = next;
    } else if (GateKey(next, 0) > GateKey(second, 0)) {
      second = next;
    }
  }
  return a.score == GateScore::kSigmoid ? best + second : best;
}

// Bit g: whether experts of group g may be chosen.
JANUS_INLINE uint64_t OpenGroups(const GateTopKArgs& a, const float* logits) {
  uint64_t best[kMaxGroups];
  for (int g = 0; g < a.groups; ++g) best[g] = GateKey(GroupScore(a, logits, g), g);
  uint64_t open = 0;
  for (int chosen = 0; chosen < a.top_groups; ++chosen) {
    int next = -1;
    for (int g = 0; g < a.groups; ++g) {
      if ((open >> g & 1) == 0 && (next < 0 || best[g] > best[next])) next = g;
    }
    open |= uint64_t{1} << next;
  }
  return open;
}

// In place.
JANUS_INLINE void Sigmoid(float* x, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = Smaller(kLanes, count - i);
    const V16 v = LoadUpTo(DType::kFloat32, x + i, lanes);
    StoreUpTo(DType::kFloat32, x + i, Sigmoid(v), lanes);
  }
}

// Weights of the chosen from their scores.
JANUS_INLINE void SigmoidWeights(const GateTopKArgs& a, const float* scores, const uint16_t* ids,
                                 float* weights) {
  float sum = 0.0f;
  for (int j = 0; j < a.top_k; ++j) sum += scores[ids[j]];
  const float divisor = a.renormalize ? sum + 1e-20f : 1.0f;
  for (int j = 0; j < a.top_k; ++j) weights[j] = scores[ids[j]] / divisor * a.weight_scale;
}

// Weights of the chosen, each from its own logit.
JANUS_INLINE void WeightsOfChosen(const GateTopKArgs& a, const float* logits, const uint16_t* ids,
                                  float* weights) {
  alignas(64) float s[kMaxTopK] = {};
  for (int j = 0; j < a.top_k; ++j) s[j] = logits[ids[j]];
  for (int j = 0; j < a.top_k; j += kLanes) Store(s + j, Sigmoid(Load(s + j)));
  for (int j = 0; j < a.top_k; ++j) weights[j] = s[j] * a.weight_scale;
}

// Weights of the chosen from the logits, ids[0] having the largest of all.
JANUS_INLINE void SoftmaxWeights(const GateTopKArgs& a, const float* logits, const uint16_t* ids,
                                 float* weights) {
  const V16 largest = Set(logits[ids[0]]);
  V16 total = Zero();
  if (!a.renormalize) {
    for (int64_t e = 0; e < a.experts; e += kLanes) {
      const int64_t count = Smaller(kLanes, a.experts - e);
      const V16 p = Exp(LoadUpTo(DType::kFloat32, logits + e, count) - largest);
      total = total + Blend((1u << count) - 1u, Zero(), p);
    }
  }
  alignas(64) float p[kMaxTopK] = {};
  for (int j = 0; j < a.top_k; ++j) p[j] = logits[ids[j]];
  for (int j = 0; j < a.top_k; j += kLanes) Store(p + j, Exp(Load(p + j) - largest));
  float sum = AddLanes(total);
  if (a.renormalize) {
    sum = p[0];
    for (int j = 1; j < a.top_k; ++j) sum += p[j];
  }
  for (int j = 0; j < a.top_k; ++j) weights[j] = p[j] / sum * a.weight_scale;
}

void GateSelect(const GateTopKArgs& a, int part, int parts) {
  const Span rows = Share(a.rows, part, parts);
  uint64_t best[kMaxTopK];
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    float* logits = a.logits + t * a.experts;
    if (a.score == GateScore::kSigmoid) Sigmoid(logits, a.experts);
    // Insertion into a short descending list.
    int held = 0;
    const uint64_t open = a.top_groups == a.groups ? ~uint64_t{0} : OpenGroups(a, logits);
    const int group_size = a.experts / a.groups;
    for (int e = 0, g = 0; e < a.experts; ++e) {
      if (e == (g + 1) * group_size) ++g;
      if ((open >> g & 1) == 0) continue;
      const uint64_t key = GateKey(GateChoice(a, logits, e), e);
      if (held == a.top_k && key < best[held - 1]) continue;
      int at = held < a.top_k ? held++ : held - 1;
      for (; at > 0 && best[at - 1] < key; --at) best[at] = best[at - 1];
      best[at] = key;
    }
    uint16_t* ids = a.ids + t * a.top_k;
    float* weights = a.weights + t * a.top_k;
    for (int j = 0; j < a.top_k; ++j) {
      ids[j] = static_cast<uint16_t>(0xffffffffu - static_cast<uint32_t>(best[j]));
    }
    if (a.score == GateScore::kSigmoid) {
      SigmoidWeights(a, logits, ids, weights);
    } else if (a.score == GateScore::kSigmoidOfChosen) {
      WeightsOfChosen(a, logits, ids, weights);
    } else {
      SoftmaxWeights(a, logits, ids, weights);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
