// Gated experts. Dealt over (expert, block of 16 columns), an expert's block costing its
// weights' read or its rows' arithmetic. Two passes: h for every contribution, then down.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/dot.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// The arithmetic of about so many rows takes as long as the read of the weights.
constexpr int64_t kRowsPerRead = 10;

JANUS_INLINE int64_t ExpertCost(const ActiveExpert& expert) {
  return expert.count == 0 ? 0 : kRowsPerRead + expert.count;
}

// The scales of a weight row's blocks of `inputs`: of fp8 one row of them for 128 outputs, of mxfp4
// one for each; null without.
JANUS_INLINE const void* ScalesOf(const void* scales, DType weight, int64_t output,
                                  int64_t inputs) {
  static_assert(kScaleBlock % kColumns == 0, "columns of a block share their scales");
  if (scales == nullptr) return nullptr;
  if (weight == DType::kMxfp4) {
    return static_cast<const uint8_t*>(scales) + output * (inputs / kMxBlock);
  }
  return static_cast<const float*>(scales) + output / kScaleBlock * ScaleBlocks(inputs);
}

// Calls visit(expert, block) for this part's blocks of `columns` columns of every expert.
template <class Visit>
JANUS_INLINE void ForExpertBlocks(const GroupedExpertFfnArgs& a, int64_t columns, int part,
                                  int parts, Visit visit) {
  const int64_t blocks = CeilDiv(columns, kColumns);
  int64_t total = 0;
  for (int64_t e = 0; e < a.num_experts; ++e) total += ExpertCost(a.experts[e]) * blocks;
  CostShare share(total, part, parts);
  for (int64_t e = 0; e < a.num_experts; ++e) {
    if (a.experts[e].count == 0) continue;
    const Span mine = share.Take(blocks, ExpertCost(a.experts[e]));
    for (int64_t block = mine.begin; block < mine.end; ++block) visit(a.experts[e], block);
  }
}

// The hidden activation of sixteen columns, before it is rounded. Of minimum and maximum the second
// argument is the result if either is NaN, so NaN stays.
JANUS_INLINE V16 Activate(const GroupedExpertFfnArgs& a, V16 gate, V16 up) {
  const V16 one = Set(1.0f);
  if (a.swiglu_limit <= 0.0f) return gate / (one + Exp(Zero() - gate)) * up;
  const V16 most = Set(a.swiglu_limit);
  const V16 g = Min(most, gate);
  const V16 u = Min(most, Max(Zero() - most, up));
  return g / (one + Exp(Zero() - Set(a.swiglu_alpha) * g)) * (u + one);
}

// Adds the bias of columns from `column` on.
JANUS_INLINE V16 Biased(V16 sums, const float* bias, int64_t column, int64_t columns) {
  return bias == nullptr ? sums : sums + LoadUpTo(DType::kFloat32, bias + column, columns);
}

void GroupedExpertFfnUp(const GroupedExpertFfnArgs& a, int64_t h_row_bytes, int part, int parts) {
  const DotBlockFn dot = DotBlockOf(a.row_dtype, a.weight_dtype);
  const int64_t w_row = Bytes(a.weight_dtype, a.hidden);
  const int64_t chunk = RowsPerChunk(a.hidden * Bytes(a.row_dtype));
  alignas(64) float gates[kRowChunk * kColumns] = {};
  alignas(64) float ups[kRowChunk * kColumns] = {};
  const char* x[kRowChunk];
  ForExpertBlocks(a, a.intermediate, part, parts, [&](const ActiveExpert& expert, int64_t block) {
    const int64_t column = block * kColumns;
    const int64_t columns = Smaller(kColumns, a.intermediate - column);
    const char* gate = static_cast<const char*>(expert.gate) + column * w_row;
    const char* up = static_cast<const char*>(expert.up) + column * w_row;
    const void* gate_scales = ScalesOf(expert.gate_scales, a.weight_dtype, column, a.hidden);
    const void* up_scales = ScalesOf(expert.up_scales, a.weight_dtype, column, a.hidden);
    const float* gate_bias = a.has_bias ? expert.gate_bias : nullptr;
    const float* up_bias = a.has_bias ? expert.up_bias : nullptr;
    for (int64_t row = 0; row < expert.count; row += chunk) {
      const auto count = static_cast<int>(Smaller(chunk, expert.count - row));
      const int64_t first = expert.first + row;
      for (int m = 0; m < count; ++m) {
        x[m] = static_cast<const char*>(a.contributions[first + m].x);
      }
      dot(x, count, gate, w_row, static_cast<int>(columns), a.hidden, gate_scales, gates);
      dot(x, count, up, w_row, static_cast<int>(columns), a.hidden, up_scales, ups);
      for (int m = 0; m < count; ++m) {
        V16 g = Load(gates + m * kColumns);
        V16 u = Load(ups + m * kColumns);
        if (a.weighs_inputs) {
          const V16 weight = Set(a.contributions[first + m].weight);
          g = weight * g;
          u = weight * u;
        }
        g = Biased(g, gate_bias, column, columns);
        u = Biased(u, up_bias, column, columns);
        char* h = static_cast<char*>(a.workspace) + (first + m) * h_row_bytes +
                  column * Bytes(a.row_dtype);
        StoreUpTo(a.row_dtype, h, Activate(a, g, u), columns);
      }
    }
  });
}

void GroupedExpertFfnDown(const GroupedExpertFfnArgs& a, int64_t h_row_bytes, int part, int parts) {
  const DotBlockFn dot = DotBlockOf(a.row_dtype, a.weight_dtype);
  const int64_t w_row = Bytes(a.weight_dtype, a.intermediate);
  const int64_t chunk = RowsPerChunk(h_row_bytes);
  alignas(64) float dots[kRowChunk * kColumns] = {};
  const char* h[kRowChunk];
  ForExpertBlocks(a, a.hidden, part, parts, [&](const ActiveExpert& expert, int64_t block) {
    const int64_t column = block * kColumns;
    const int64_t columns = Smaller(kColumns, a.hidden - column);
    const char* down = static_cast<const char*>(expert.down) + column * w_row;
    const void* scales = ScalesOf(expert.down_scales, a.weight_dtype, column, a.intermediate);
    const float* bias = a.has_bias ? expert.down_bias : nullptr;
    for (int64_t row = 0; row < expert.count; row += chunk) {
      const auto count = static_cast<int>(Smaller(chunk, expert.count - row));
      const int64_t first = expert.first + row;
      for (int m = 0; m < count; ++m) {
        h[m] = static_cast<const char*>(a.workspace) + (first + m) * h_row_bytes;
      }
      dot(h, count, down, w_row, static_cast<int>(columns), a.intermediate, scales, dots);
      for (int m = 0; m < count; ++m) {
        const Contribution& c = a.contributions[first + m];
        V16 y = Biased(Load(dots + m * kColumns), bias, column, columns);
        if (!a.weighs_inputs) y = Set(c.weight) * y;
        StoreUpTo(a.y_dtype, static_cast<char*>(c.y) + column * Bytes(a.y_dtype), y, columns);
      }
    }
  });
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
