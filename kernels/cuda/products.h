#pragma once

// Projections, the gate and the experts, over tile.h. Specification:
// ../reference/{linear,head_linear,gate_top_k,grouped_expert_ffn}.cc

#include <cmath>

#include "kernels/cuda/tile.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

// Block per tile of rows x outputs, outputs first.
struct LinearKernel {
  static constexpr int kThreads = Tile::kThreads;
  LinearArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.outputs + Tile::kOutputs - 1) / Tile::kOutputs;
    const int64_t n0 = block.index() % across * Tile::kOutputs;
    const int64_t t0 = block.index() / across * Tile::kRows;
    const int outputs = PartOfTile(a.outputs, n0, Tile::kOutputs);
    const int rows = PartOfTile(a.rows, t0, Tile::kRows);
    const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.inputs;
    const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.outputs;
    PerThread<Tile::Sums, kThreads> sums;
    MultiplyTile(
        block, rows, outputs, a.inputs,
        [&](int r, int64_t k) { return Load(a.x, a.x_dtype, (t0 + r) * x_stride + k); },
        [&](int n, int64_t k) { return Load(a.weight, a.weight_dtype, (n0 + n) * a.inputs + k); },
        sums);
    ForEachOfTile(block, rows, outputs, [&](int thread, int r, int n, int i) {
      float sum = sums[thread].of[i];
      if (a.bias != nullptr) sum += Load(a.bias, a.bias_dtype, n0 + n);
      float& y = a.y[(t0 + r) * y_stride + n0 + n];
      y = a.accumulate ? y + sum : sum;
    });
  }
};
inline Plan PlanLinear(const LinearArgs& a) {
  const int64_t out = a.rows * a.outputs * (a.accumulate ? 8 : 4);
  return {CeilDiv(a.outputs, Tile::kOutputs) * CeilDiv(a.rows, Tile::kRows), Tile::kThreads,
          Tile::kSharedBytes,
          a.rows * a.inputs * SizeOf(a.x_dtype) + a.outputs * a.inputs * SizeOf(a.weight_dtype) +
              (a.bias != nullptr ? a.outputs * SizeOf(a.bias_dtype) : 0) + out,
          2 * a.rows * a.outputs * a.inputs};
}

// Block per tile of one head.
struct HeadLinearKernel {
  static constexpr int kThreads = Tile::kThreads;
  HeadLinearArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.outputs + Tile::kOutputs - 1) / Tile::kOutputs;
    const int64_t n0 = block.index() % across * Tile::kOutputs;
    const int64_t h = block.index() / across % a.heads;
    const int64_t t0 = block.index() / across / a.heads * Tile::kRows;
    const int outputs = PartOfTile(a.outputs, n0, Tile::kOutputs);
    const int rows = PartOfTile(a.rows, t0, Tile::kRows);
    PerThread<Tile::Sums, kThreads> sums;
    MultiplyTile(
        block, rows, outputs, a.inputs,
        [&](int r, int64_t k) { return a.x[(t0 + r) * a.x_row_stride + h * a.x_head_stride + k]; },
        [&](int n, int64_t k) {
          const int64_t at = a.transposed ? k * a.outputs + n0 + n : (n0 + n) * a.inputs + k;
          return Load(a.weight, a.weight_dtype, h * a.weight_head_stride + at);
        },
        sums);
    ForEachOfTile(block, rows, outputs, [&](int thread, int r, int n, int i) {
      Store(a.y, a.y_dtype, (t0 + r) * a.y_row_stride + h * a.y_head_stride + n0 + n,
            sums[thread].of[i]);
    });
  }
};
inline Plan PlanHeadLinear(const HeadLinearArgs& a) {
  return {CeilDiv(a.outputs, Tile::kOutputs) * a.heads * CeilDiv(a.rows, Tile::kRows),
          Tile::kThreads, Tile::kSharedBytes,
          a.heads * (a.rows * a.inputs * 4 + a.outputs * a.inputs * SizeOf(a.weight_dtype) +
                     a.rows * a.outputs * SizeOf(a.y_dtype)),
          2 * a.rows * a.heads * a.outputs * a.inputs};
}

// The gate's logits: block per tile of rows x experts.
struct GateLogitsKernel {
  static constexpr int kThreads = Tile::kThreads;
  GateTopKArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.experts + Tile::kOutputs - 1) / Tile::kOutputs;
    const int64_t e0 = block.index() % across * Tile::kOutputs;
    const int64_t t0 = block.index() / across * Tile::kRows;
    const int outputs = PartOfTile(a.experts, e0, Tile::kOutputs);
    const int rows = PartOfTile(a.rows, t0, Tile::kRows);
    const bool has_bias = a.score == GateScore::kSoftmax && a.bias != nullptr;
    PerThread<Tile::Sums, kThreads> sums;
    MultiplyTile(
        block, rows, outputs, a.hidden,
        [&](int r, int64_t k) { return Load(a.x_rows[t0 + r], a.x_dtype, k); },
        [&](int n, int64_t k) { return Load(a.weight, a.weight_dtype, (e0 + n) * a.hidden + k); },
        sums);
    ForEachOfTile(block, rows, outputs, [&](int thread, int r, int n, int i) {
      float logit = sums[thread].of[i];
      if (has_bias) logit += a.bias[e0 + n];
      a.logits[(t0 + r) * a.experts + e0 + n] = logit;
    });
  }
};
inline Plan PlanGateLogits(const GateTopKArgs& a) {
  return {CeilDiv(a.experts, Tile::kOutputs) * CeilDiv(a.rows, Tile::kRows), Tile::kThreads,
          Tile::kSharedBytes,
          a.rows * (8 + a.hidden * SizeOf(a.x_dtype)) +
              a.experts * a.hidden * SizeOf(a.weight_dtype) + 4 * a.rows * a.experts,
          2 * a.rows * a.experts * a.hidden};
}

// What the gate's forms share. The rank of an expert in the choice: its logit, or its score plus
// its bias.
JANUS_DEVICE inline float ChosenBy(const GateTopKArgs& a, const float* logits, int e) {
  return a.score == GateScore::kSigmoid ? logits[e] + a.bias[e] : logits[e];
}
// The weight of the j-th of those chosen by their scores.
JANUS_DEVICE inline float SigmoidWeight(const GateTopKArgs& a, const float* scores,
                                        const uint16_t* ids, int j) {
  float divisor = 1.0f;
  if (a.renormalize) {
    float sum = 0.0f;
    for (int i = 0; i < a.top_k; ++i) sum += scores[ids[i]];
    divisor = sum + 1e-20f;
  }
  return scores[ids[j]] / divisor * a.weight_scale;
}

// The choice of experts: block per row. The order of ranks is total: NaN is above all numbers, ties
// go to the lower id, and -0 equals +0.
struct GateChoiceKernel {
  static constexpr int kThreads = 128;
  GateTopKArgs a;

  struct Best {
    float score;
    int id;  // -1: none
  };
  JANUS_DEVICE static bool Beats(const Best& x, const Best& y) {
    if (x.id < 0 || y.id < 0) return x.id >= 0;
    const bool x_nan = x.score != x.score;
    const bool y_nan = y.score != y.score;
    if (x_nan != y_nan) return x_nan;
    if (!x_nan && x.score != y.score) return x.score > y.score;
    return x.id < y.id;
  }
  // Of group g: its best logit, or the sum of its two best scores with their biases.
  JANUS_DEVICE Best GroupScore(const float* logits, int g) const {
    const int size = a.experts / a.groups;
    Best best{0.0f, -1};
    Best second{0.0f, -1};
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const Best next{ChosenBy(a, logits, e), e};
      if (Beats(next, best)) {
        second = best;
        best = next;
      } else if (Beats(next, second)) {
        second = next;
      }
    }
    return {a.score == GateScore::kSigmoid ? best.score + second.score : best.score, g};
  }
  // Shared: candidates and partial sums of the threads, the score of each group, which are open,
  // which experts are taken.
  struct Shared {
    Best best[kThreads];
    float partial[kThreads];
    Best of_group[kMaxGroups];
    uint8_t open[kMaxGroups];
    uint8_t taken[kMaxExperts];
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& s = *reinterpret_cast<Shared*>(block.shared());
    float* const logits = a.logits + block.index() * a.experts;
    uint16_t* const ids = a.ids + block.index() * a.top_k;
    float* const weights = a.weights + block.index() * a.top_k;
    const int size = a.experts / a.groups;
    block.Phase([&](int thread) {
      for (int e = thread; e < a.experts; e += kThreads) {
        s.taken[e] = 0;
        if (a.score == GateScore::kSigmoid) logits[e] = Sigmoid(logits[e]);
      }
    });
    block.Phase([&](int thread) {
      for (int g = thread; g < a.groups; g += kThreads) s.of_group[g] = GroupScore(logits, g);
    });
    // A group is open if fewer than top_groups others beat it.
    block.Phase([&](int thread) {
      for (int g = thread; g < a.groups; g += kThreads) {
        int better = 0;
        for (int other = 0; other < a.groups; ++other) {
          better += other != g && Beats(s.of_group[other], s.of_group[g]) ? 1 : 0;
        }
        s.open[g] = better < a.top_groups ? 1 : 0;
      }
    });
    for (int j = 0; j < a.top_k; ++j) {
      block.Phase([&](int thread) {
        Best best{0.0f, -1};
        for (int e = thread; e < a.experts; e += kThreads) {
          const Best next{ChosenBy(a, logits, e), e};
          if (s.taken[e] == 0 && s.open[e / size] != 0 && Beats(next, best)) best = next;
        }
        s.best[thread] = best;
      });
      for (int half = kThreads / 2; half > 0; half /= 2) {
        block.Phase([&](int thread) {
          if (thread < half && Beats(s.best[thread + half], s.best[thread])) {
            s.best[thread] = s.best[thread + half];
          }
        });
      }
      block.Phase([&](int thread) {
        if (thread != 0) return;
        s.taken[s.best[0].id] = 1;
        ids[j] = static_cast<uint16_t>(s.best[0].id);
      });
    }
    if (a.score == GateScore::kSigmoid) {
      block.Phase([&](int thread) {
        if (thread < a.top_k) weights[thread] = SigmoidWeight(a, logits, ids, thread);
      });
      return;
    }
    if (a.score == GateScore::kSigmoidOfChosen) {
      block.Phase([&](int thread) {
        if (thread < a.top_k) weights[thread] = Sigmoid(logits[ids[thread]]) * a.weight_scale;
      });
      return;
    }
    // Softmax over all experts, the largest logit being the first choice of all open groups; that
    // is the largest of all, because its group is never beaten.
    block.Phase([&](int thread) {
      const float largest = logits[ids[0]];
      float sum = 0.0f;
      for (int e = thread; e < a.experts; e += kThreads) sum += expf(logits[e] - largest);
      s.partial[thread] = sum;
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Phase([&](int thread) {
        if (thread < half) s.partial[thread] += s.partial[thread + half];
      });
    }
    block.Phase([&](int thread) {
      if (thread >= a.top_k) return;
      const float largest = logits[ids[0]];
      float total = s.partial[0];
      if (a.renormalize) {
        total = 0.0f;
        for (int j = 0; j < a.top_k; ++j) total += expf(logits[ids[j]] - largest);
      }
      weights[thread] = expf(logits[ids[thread]] - largest) / total * a.weight_scale;
    });
  }
};
// The bytes of a choice. It reads logits, or so many pieces of each. It writes logits that were
// pieces, or scores in their place.
inline int64_t GateChoiceBytes(const GateTopKArgs& a, int64_t pieces) {
  const int64_t read = pieces > 0 ? pieces : 1;
  const int64_t written = pieces > 0 || a.score == GateScore::kSigmoid ? 1 : 0;
  return a.rows * (4 * a.experts * (read + written) + 6 * a.top_k) +
         (a.bias != nullptr ? 4 * a.experts : 0);
}
inline Plan PlanGateChoice(const GateTopKArgs& a) {
  return {a.rows, GateChoiceKernel::kThreads, sizeof(GateChoiceKernel::Shared),
          GateChoiceBytes(a, 0), 0};
}

JANUS_DEVICE inline float Silu(float x) {
  return x / (1.0f + expf(-x));
}
// An expert's hidden activation, before it is rounded. A NaN stays NaN.
JANUS_DEVICE inline float Activate(const GroupedExpertFfnArgs& a, float gate, float up) {
  if (a.swiglu_limit <= 0.0f) return Silu(gate) * up;
  const float g = gate > a.swiglu_limit ? a.swiglu_limit : gate;
  const float above = up > a.swiglu_limit ? a.swiglu_limit : up;
  const float u = above < -a.swiglu_limit ? -a.swiglu_limit : above;
  return g / (1.0f + expf(-(a.swiglu_alpha * g))) * (u + 1.0f);
}

// An expert's matrix [N,inputs], of which a tile has `outputs` rows from n0 on.
struct ExpertMatrix {
  const void* weights;
  const void* scales;  // of fp8 and mxfp4
  int64_t n0;
  int outputs;
  int64_t inputs;
};

// sums += x.w^T, as MultiplyTile. In fp8 one fma multiplies the sum of each block of scales by its
// scale and adds it to those before. In mxfp4 a weight is its value, scale included.
template <class Block, class X>
JANUS_DEVICE void MultiplyExpert(Block& block, DType type, const ExpertMatrix& w, int rows, X x,
                                 PerThread<Tile::Sums, Tile::kThreads>& sums) {
  if (type == DType::kMxfp4) {
    const auto* const weights = static_cast<const uint8_t*>(w.weights);
    const auto* const scales = static_cast<const uint8_t*>(w.scales);
    MultiplyTile(
        block, rows, w.outputs, w.inputs, x,
        [&](int n, int64_t k) { return Mxfp4Weight(weights, scales, (w.n0 + n) * w.inputs + k); },
        sums);
    return;
  }
  if (type != DType::kFloat8E4M3) {
    MultiplyTile(
        block, rows, w.outputs, w.inputs, x,
        [&](int n, int64_t k) { return Load(w.weights, type, (w.n0 + n) * w.inputs + k); }, sums);
    return;
  }
  for (int64_t k0 = 0; k0 < w.inputs; k0 += kScaleBlock) {
    PerThread<Tile::Sums, Tile::kThreads> part;
    MultiplyTile(
        block, rows, w.outputs, PartOfTile(w.inputs, k0, kScaleBlock),
        [&](int r, int64_t k) { return x(r, k0 + k); },
        [&](int n, int64_t k) { return Load(w.weights, type, (w.n0 + n) * w.inputs + k0 + k); },
        part);
    ForEachOfTile(block, rows, w.outputs, [&](int thread, int, int n, int i) {
      const int64_t of_row = (w.n0 + n) / kScaleBlock * ScaleBlocks(w.inputs);
      float& sum = sums[thread].of[i];
      const float scale = static_cast<const float*>(w.scales)[of_row + k0 / kScaleBlock];
      sum = fmaf(part[thread].of[i], scale, sum);
    });
  }
}

// h = round(silu(gate x) * up x), or the clamped SwiGLU: block per (expert, tile of intermediate
// columns), which goes over the expert's rows. Only the device knows how many rows an expert has.
// Blocks of an expert without rows end at once.
struct ExpertUpKernel {
  static constexpr int kThreads = Tile::kThreads;
  GroupedExpertFfnArgs a;
  int64_t h_row_bytes = 0;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.intermediate + Tile::kOutputs - 1) / Tile::kOutputs;
    const int64_t n0 = block.index() % across * Tile::kOutputs;
    const int outputs = PartOfTile(a.intermediate, n0, Tile::kOutputs);
    const ActiveExpert& expert = a.experts[block.index() / across];
    for (int64_t c0 = 0; c0 < expert.count; c0 += Tile::kRows) {
      const int rows = PartOfTile(expert.count, c0, Tile::kRows);
      const Contribution* const c = a.contributions + expert.first + c0;
      const auto x = [&](int r, int64_t k) { return Load(c[r].x, a.row_dtype, k); };
      PerThread<Tile::Sums, kThreads> gate;
      PerThread<Tile::Sums, kThreads> up;
      MultiplyExpert(block, a.weight_dtype,
                     {expert.gate, expert.gate_scales, n0, outputs, a.hidden}, rows, x, gate);
      MultiplyExpert(block, a.weight_dtype, {expert.up, expert.up_scales, n0, outputs, a.hidden},
                     rows, x, up);
      ForEachOfTile(block, rows, outputs, [&](int thread, int r, int n, int i) {
        auto* const h =
            static_cast<unsigned char*>(a.workspace) + (expert.first + c0 + r) * h_row_bytes;
        const float weight = a.weighs_inputs ? c[r].weight : 1.0f;
        float g = weight * gate[thread].of[i];
        float u = weight * up[thread].of[i];
        if (a.has_bias) {
          g += expert.gate_bias[n0 + n];
          u += expert.up_bias[n0 + n];
        }
        Store(h, a.row_dtype, n0 + n, Activate(a, g, u));
      });
    }
  }
};
inline Plan PlanExpertUp(const GroupedExpertFfnArgs& a) {
  return {a.num_experts * CeilDiv(a.intermediate, Tile::kOutputs), Tile::kThreads,
          Tile::kSharedBytes, 0, 4 * a.num_contributions * a.intermediate * a.hidden};
}

// y = round(weight * (down h)): block per (expert, tile of hidden columns).
struct ExpertDownKernel {
  static constexpr int kThreads = Tile::kThreads;
  GroupedExpertFfnArgs a;
  int64_t h_row_bytes = 0;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.hidden + Tile::kOutputs - 1) / Tile::kOutputs;
    const int64_t n0 = block.index() % across * Tile::kOutputs;
    const int outputs = PartOfTile(a.hidden, n0, Tile::kOutputs);
    const ActiveExpert& expert = a.experts[block.index() / across];
    for (int64_t c0 = 0; c0 < expert.count; c0 += Tile::kRows) {
      const int rows = PartOfTile(expert.count, c0, Tile::kRows);
      const Contribution* const c = a.contributions + expert.first + c0;
      PerThread<Tile::Sums, kThreads> sums;
      MultiplyExpert(
          block, a.weight_dtype, {expert.down, expert.down_scales, n0, outputs, a.intermediate},
          rows,
          [&](int r, int64_t k) {
            const auto* const h = static_cast<const unsigned char*>(a.workspace) +
                                  (expert.first + c0 + r) * h_row_bytes;
            return Load(h, a.row_dtype, k);
          },
          sums);
      ForEachOfTile(block, rows, outputs, [&](int thread, int r, int n, int i) {
        float sum = sums[thread].of[i];
        if (a.has_bias) sum += expert.down_bias[n0 + n];
        Store(c[r].y, a.y_dtype, n0 + n, a.weighs_inputs ? sum : c[r].weight * sum);
      });
    }
  }
};
inline Plan PlanExpertDown(const GroupedExpertFfnArgs& a) {
  return {a.num_experts * CeilDiv(a.hidden, Tile::kOutputs), Tile::kThreads, Tile::kSharedBytes, 0,
          2 * a.num_contributions * a.intermediate * a.hidden};
}
// The least bytes of a call with known routing: an activated expert's weights and scales once, rows
// in and contributions out.
inline int64_t ExpertBytes(const GroupedExpertFfnArgs& a, int64_t activated, int64_t rows) {
  const int64_t weights = 3 * a.hidden * a.intermediate;
  const int64_t scales = a.weight_dtype == DType::kFloat8E4M3
                             ? 3 * 4 * ScaleBlocks(a.hidden) * ScaleBlocks(a.intermediate)
                         : a.weight_dtype == DType::kMxfp4 ? weights / kMxBlock
                                                           : 0;
  return activated * (BytesOf(a.weight_dtype, weights) + scales) +
         rows * (a.hidden * (SizeOf(a.row_dtype) + SizeOf(a.y_dtype)) +
                 2 * a.intermediate * SizeOf(a.row_dtype));
}

}  // namespace janus::kernels::cuda
