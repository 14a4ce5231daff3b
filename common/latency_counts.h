#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/clock.h"

namespace janus {

// How many requests took how long, for percentiles over the requests of several instances. Eight
// buckets to a doubling, from 1 ms to 15 minutes. Counts only grow while who counts lives.
// Thread-compatible.
struct LatencyCounts {
  static constexpr int kBuckets = 160;
  // counts[i] took more than bound i - 1 and not more than bound i; the last: more than all bounds.
  std::array<uint64_t, kBuckets> counts{};

  void Add(Seconds took);
  LatencyCounts& operator+=(const LatencyCounts& other);
  // What came since `before`. Nothing: fewer are counted somewhere, as somebody who counted has
  // gone.
  std::optional<LatencyCounts> Since(const LatencyCounts& before) const;
  // The time that `share` (0..1] of them did not exceed, to within a bucket. Nothing: there are
  // none.
  std::optional<Seconds> Percentile(double share) const;

  friend bool operator==(const LatencyCounts&, const LatencyCounts&) = default;
};

}  // namespace janus
