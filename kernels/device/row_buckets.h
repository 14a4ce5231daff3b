#pragma once

#include <algorithm>
#include <bit>
#include <vector>

namespace janus::kernels {

// Launches are recorded for 1, 2, 3, 4, 6, 8, 12, 16, 24, ... rows. Other numbers of rows use the
// next larger recording, which computes less than half as many rows again.
constexpr int RowBucket(int rows) {
  const int step = std::max(1, static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))) / 4);
  return (rows + step - 1) / step * step;
}

// The buckets of 1..most rows, ascending. No bucket is above `room`.
inline std::vector<int> RowBuckets(int most, int room) {
  std::vector<int> buckets;
  for (int rows = 1; rows <= most; rows = buckets.back() + 1) {
    buckets.push_back(std::min(RowBucket(rows), room));
    if (buckets.back() == room) break;
  }
  return buckets;
}

}  // namespace janus::kernels
