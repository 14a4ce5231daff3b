#pragma once

#include <cstddef>
#include <span>

#include "common/dtype.h"

namespace janus::dataplane {

// Whether no value is NaN or infinite. `values` is aligned to its elements.
bool AllFinite(std::span<const std::byte> values, DType dtype);

// Casts a row of Float8E4M3 weights times its blocks' scales. `to` and the result are as for
// CastAndCheck.
bool DequantizeAndCheck(std::span<const std::byte> row, const float* scales, std::byte* to,
                        DType to_dtype);

// Casts (to nearest, ties to even) into `to`, which is aligned and has room for as many values.
// `from` may be unaligned. False if a result is NaN or infinite. Neither format may be Float8E4M3.
bool CastAndCheck(std::span<const std::byte> from, DType from_dtype, std::byte* to, DType to_dtype);

}  // namespace janus::dataplane
