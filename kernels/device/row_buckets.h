#pragma once

#include <algorithm>
#include <bit>
#include <vector>

namespace janus::kernels {

// Launches are recorded for so many rows: 1, 2, 3, 4, 6, 8, 12, 16, 24, ...; fewer take the next
// that is not less, and so compute less than half as many again.
constexpr int RowBucket(int rows) {
  const int step = std::max(1, static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))) / 4);
  return (rows + step - 1) / step * step;
}

// Those that 1..most rows take, ascending, none above `room`.
inline std::vector<int> RowBuckets(int most, int room) {
  std::vector<int> buckets;
  for (int rows = 1; rows <= most; rows = buckets.back() + 1) {
    buckets.push_back(std::min(RowBucket(rows), room));
    if (buckets.back() == room) break;
  }
  return buckets;
}

}  // namespace janus::kernels
