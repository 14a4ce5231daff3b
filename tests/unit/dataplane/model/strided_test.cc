#include "dataplane/model/strided.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace janus::dataplane {
namespace {

template <class Element>
void ExpectCopies(const Strided& matrix, size_t misalignment) {
  std::vector<Element> values(static_cast<size_t>(matrix.end()));
  std::iota(values.begin(), values.end(), Element{1});
  std::vector<std::byte> from(values.size() * sizeof(Element) + misalignment);
  std::memcpy(from.data() + misalignment, values.data(), values.size() * sizeof(Element));
  const auto count = static_cast<size_t>(matrix.rows * matrix.columns);
  std::vector<Element> to(count + 1);
  CopyStrided(std::span<const std::byte>(from).subspan(misalignment), sizeof(Element), matrix,
              reinterpret_cast<std::byte*>(to.data()));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t c = 0; c < matrix.columns; ++c) {
      const int64_t at = matrix.first + r * matrix.row_stride + c * matrix.column_stride;
      ASSERT_EQ(to[static_cast<size_t>(r * matrix.columns + c)], values[static_cast<size_t>(at)])
          << r << ' ' << c;
    }
  }
  EXPECT_EQ(to[count], Element{0}) << "nothing beyond the matrix is written";
}

TEST(CopyStrided, CopiesEveryElementOfAnyWidthAtAnyAddress) {
  const Strided matrices[] = {
      {0, 1, 1, 0, 1},           // one element
      {5, 3, 70, 100, 1},        // rows apart
      {1, 130, 67, 2, 2 * 130},  // every other column of a transposed matrix
      {7, 67, 130, 1, 67},       // a transposed matrix
      {1, 1, 90, 0, 2},          // every other element
  };
  for (const Strided& matrix : matrices) {
    for (const size_t misalignment : {0, 1}) {
      ExpectCopies<uint8_t>(matrix, misalignment);
      ExpectCopies<uint16_t>(matrix, misalignment);
      ExpectCopies<uint32_t>(matrix, misalignment);
    }
  }
}

TEST(Strided, IsWholeIfItsElementsAreNeighbours) {
  EXPECT_TRUE((Strided{9, 4, 6, 6, 1}).is_whole());
  EXPECT_TRUE((Strided{9, 1, 6, 0, 1}).is_whole());
  EXPECT_FALSE((Strided{9, 4, 6, 7, 1}).is_whole());
  EXPECT_FALSE((Strided{9, 1, 6, 0, 2}).is_whole());
}

}  // namespace
}  // namespace janus::dataplane
