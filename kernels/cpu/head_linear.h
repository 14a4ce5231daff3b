// One small projection per head. Dealt over heads and blocks of outputs.
//
// Bits of an output: as they lie in a checkpoint, the chain of dot.h; transposed, one fma chain
// over the inputs.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/dot.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// y[m][0..kVectors*16-1] of a transposed matrix, with its first column at `w`.
template <DType kType, int kM, int kVectors>
JANUS_INLINE void TransposedTile(const float* const* x, const char* w, int64_t w_row, int64_t k,
                                 V16 (*acc)[kVectors]) {
  JANUS_UNROLL for (int m = 0; m < kM; ++m) {
    JANUS_UNROLL for (int v = 0; v < kVectors; ++v) acc[m][v] = Zero();
  }
  for (int64_t i = 0; i < k; ++i) {
    V16 weight[kVectors];
    JANUS_UNROLL for (int v = 0; v < kVectors; ++v) {
      weight[v] = LoadAs<kType>(w + i * w_row + v * kLanes * Bytes(kType));
    }
    JANUS_UNROLL for (int m = 0; m < kM; ++m) {
      const V16 value = Set(x[m][i]);
      JANUS_UNROLL for (int v = 0; v < kVectors; ++v) acc[m][v] = Fma(value, weight[v], acc[m][v]);
    }
  }
}

// Rows first..first+kM-1 of one head, outputs column..column+columns-1, at most kVectors*16.
template <DType kType, int kM, int kVectors>
void TransposedRows(const HeadLinearArgs& a, int64_t head, int64_t first, int64_t column,
                    int64_t columns) {
  const int64_t w_row = a.outputs * Bytes(kType);
  const char* w =
      static_cast<const char*>(a.weight) + (head * a.weight_head_stride + column) * Bytes(kType);
  const float* x[kM];
  for (int m = 0; m < kM; ++m) {
    x[m] = a.x + (first + m) * a.x_row_stride + head * a.x_head_stride;
  }
  V16 acc[kM][kVectors];
  if (columns == kVectors * kLanes) {
    TransposedTile<kType, kM, kVectors>(x, w, w_row, a.inputs, acc);
  } else {
    // Only the first vectors and, of the last one, only some lanes are there.
    JANUS_UNROLL for (int m = 0; m < kM; ++m) {
      JANUS_UNROLL for (int v = 0; v < kVectors; ++v) acc[m][v] = Zero();
    }
    for (int v = 0; v * kLanes < columns; ++v) {
      for (int64_t i = 0; i < a.inputs; ++i) {
        const V16 weight =
            LoadUpTo(kType, w + i * w_row + v * kLanes * Bytes(kType), columns - v * kLanes);
        for (int m = 0; m < kM; ++m) acc[m][v] = Fma(Set(x[m][i]), weight, acc[m][v]);
      }
    }
  }
  for (int m = 0; m < kM; ++m) {
    const int64_t at = (first + m) * a.y_row_stride + head * a.y_head_stride + column;
    for (int v = 0; v * kLanes < columns; ++v) {
      StoreUpTo(a.y_dtype, static_cast<char*>(a.y) + (at + v * kLanes) * Bytes(a.y_dtype),
                acc[m][v], columns - v * kLanes);
    }
  }
}

#if JANUS_WIDE
constexpr int kTransposedVectors = 4;
#else
constexpr int kTransposedVectors = 1;
#endif
constexpr int64_t kTransposedColumns = kTransposedVectors * kLanes;

template <DType kType>
void TransposedBlock(const HeadLinearArgs& a, int64_t head, int64_t column, int64_t columns) {
  int64_t row = 0;
  for (; row + 4 <= a.rows; row += 4) {
    TransposedRows<kType, 4, kTransposedVectors>(a, head, row, column, columns);
  }
  for (; row < a.rows; ++row) {
    TransposedRows<kType, 1, kTransposedVectors>(a, head, row, column, columns);
  }
}

void StraightBlock(const HeadLinearArgs& a, int64_t head, int64_t column, int64_t columns) {
  const DotBlockFn dot = DotBlockOf(DType::kFloat32, a.weight_dtype);
  const int64_t w_row = a.inputs * Bytes(a.weight_dtype);
  const int64_t chunk = RowsPerChunk(a.inputs * 4);
  alignas(64) float dots[kRowChunk * kColumns] = {};
  const char* x[kRowChunk];
  const char* w = static_cast<const char*>(a.weight) +
                  (head * a.weight_head_stride + column * a.inputs) * Bytes(a.weight_dtype);
  for (int64_t row = 0; row < a.rows; row += chunk) {
    const int64_t count = Smaller(chunk, a.rows - row);
    for (int64_t m = 0; m < count; ++m) {
      x[m] =
          reinterpret_cast<const char*>(a.x + (row + m) * a.x_row_stride + head * a.x_head_stride);
    }
    dot(x, static_cast<int>(count), w, w_row, static_cast<int>(columns), a.inputs, nullptr, dots);
    for (int64_t m = 0; m < count; ++m) {
      const int64_t at = (row + m) * a.y_row_stride + head * a.y_head_stride + column;
      StoreUpTo(a.y_dtype, static_cast<char*>(a.y) + at * Bytes(a.y_dtype),
                Load(dots + m * kColumns), columns);
    }
  }
}

void HeadLinearPart(const HeadLinearArgs& a, int part, int parts) {
  const int64_t width = a.transposed ? kTransposedColumns : kColumns;
  const int64_t blocks = CeilDiv(a.outputs, width);
  const Span mine = Share(a.heads * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t head = unit / blocks;
    const int64_t column = unit % blocks * width;
    const int64_t columns = Smaller(width, a.outputs - column);
    if (!a.transposed) {
      StraightBlock(a, head, column, columns);
    } else if (a.weight_dtype == DType::kFloat32) {
      TransposedBlock<DType::kFloat32>(a, head, column, columns);
    } else if (a.weight_dtype == DType::kBFloat16) {
      TransposedBlock<DType::kBFloat16>(a, head, column, columns);
    } else {
      TransposedBlock<DType::kFloat16>(a, head, column, columns);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
