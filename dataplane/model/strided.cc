#include "dataplane/model/strided.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"

namespace janus::dataplane {
namespace {

// In squares, so that both sides stay in the cache: one of them is read or written across.
template <size_t kElement>
void CopySquares(const std::byte* from, const Strided& m, std::byte* to) {
  constexpr int64_t kSide = 64;
  for (int64_t r0 = 0; r0 < m.rows; r0 += kSide) {
    const int64_t r_end = std::min(m.rows, r0 + kSide);
    for (int64_t c0 = 0; c0 < m.columns; c0 += kSide) {
      const int64_t c_end = std::min(m.columns, c0 + kSide);
      for (int64_t r = r0; r < r_end; ++r) {
        const std::byte* const row = from + r * m.row_stride * int64_t{kElement};
        std::byte* const out = to + r * m.columns * int64_t{kElement};
        for (int64_t c = c0; c < c_end; ++c) {
          std::memcpy(out + c * int64_t{kElement}, row + c * m.column_stride * int64_t{kElement},
                      kElement);
        }
      }
    }
  }
}

}  // namespace

void CopyStrided(std::span<const std::byte> from, size_t element, const Strided& matrix,
                 std::byte* to) {
  JANUS_CHECK(matrix.rows > 0 && matrix.columns > 0, matrix.rows, matrix.columns);
  JANUS_CHECK(static_cast<size_t>(matrix.end()) * element <= from.size(), matrix.end(), element);
  const std::byte* const first = from.data() + static_cast<size_t>(matrix.first) * element;
  if (matrix.column_stride == 1) {
    const size_t row = static_cast<size_t>(matrix.columns) * element;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      std::memcpy(to + static_cast<size_t>(r) * row,
                  first + static_cast<size_t>(r * matrix.row_stride) * element, row);
    }
  } else if (element == 1) {
    CopySquares<1>(first, matrix, to);
  } else if (element == 2) {
    CopySquares<2>(first, matrix, to);
  } else {
    JANUS_CHECK(element == 4, element);
    CopySquares<4>(first, matrix, to);
  }
}

}  // namespace janus::dataplane
