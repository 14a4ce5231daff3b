// Projections. Dealt by blocks of 16 outputs, or by rows where outputs are few.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/dot.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// Rows of a projection's y, 16 columns of them, from what DotBlock left in `dots`.
JANUS_INLINE void FinishLinear(const LinearArgs& a, int64_t y_stride, int64_t row, int64_t rows,
                               int64_t column, int64_t columns, const float* dots) {
  const V16 bias =
      a.bias == nullptr
          ? Zero()
          : LoadUpTo(a.bias_dtype, static_cast<const char*>(a.bias) + column * Bytes(a.bias_dtype),
                     columns);
  for (int64_t m = 0; m < rows; ++m) {
    float* y = a.y + (row + m) * y_stride + column;
    V16 value = Load(dots + m * kColumns);
    if (a.bias != nullptr) value = value + bias;
    if (a.accumulate) value = LoadUpTo(DType::kFloat32, y, columns) + value;
    StoreUpTo(DType::kFloat32, y, value, columns);
  }
}

void LinearPart(const LinearArgs& a, int part, int parts) {
  const DotBlockFn dot = DotBlockOf(a.x_dtype, a.weight_dtype);
  const int64_t x_row = (a.x_stride != 0 ? a.x_stride : a.inputs) * Bytes(a.x_dtype);
  const int64_t w_row = a.inputs * Bytes(a.weight_dtype);
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.outputs;
  const int64_t chunk = RowsPerChunk(a.inputs * Bytes(a.x_dtype));
  const int64_t all_blocks = CeilDiv(a.outputs, kColumns);
  const bool by_columns = all_blocks >= parts || a.rows < parts;
  const Span blocks = by_columns ? Share(all_blocks, part, parts) : Span{0, all_blocks};
  const Span rows = by_columns ? Span{0, a.rows} : Share(a.rows, part, parts);
  alignas(64) float dots[kRowChunk * kColumns] = {};
  const char* x[kRowChunk];
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t column = block * kColumns;
    const int64_t columns = Smaller(kColumns, a.outputs - column);
    const char* w = static_cast<const char*>(a.weight) + column * w_row;
    for (int64_t row = rows.begin; row < rows.end; row += chunk) {
      const int64_t count = Smaller(chunk, rows.end - row);
      for (int64_t m = 0; m < count; ++m) {
        x[m] = static_cast<const char*>(a.x) + (row + m) * x_row;
      }
      dot(x, static_cast<int>(count), w, w_row, static_cast<int>(columns), a.inputs, nullptr, dots);
      FinishLinear(a, y_stride, row, count, column, columns, dots);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
