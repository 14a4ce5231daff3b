#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace janus::dataplane {

// A matrix [rows, columns] whose elements lie apart in a larger tensor: element (r, c) is
// first + r * row_stride + c * column_stride elements from the tensor's begin.
struct Strided {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
  // Whether its elements lie one after the other.
  bool is_whole() const { return column_stride == 1 && (rows == 1 || row_stride == columns); }
  // One past its last element in the tensor.
  int64_t end() const {
    return first + (rows - 1) * row_stride + (columns - 1) * column_stride + 1;
  }
};

// Copies such a matrix without gaps. `element`: 1, 2 or 4 bytes, at any address. `to` has room for
// it, and does not overlap `from`, which holds at least matrix.end() elements.
void CopyStrided(std::span<const std::byte> from, size_t element, const Strided& matrix,
                 std::byte* to);

}  // namespace janus::dataplane
