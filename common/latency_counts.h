#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"

namespace janus {

// How many requests took how long, for percentiles over the requests of several instances. There
// are eight buckets per doubling, from 1 ms to 15 minutes. Counts only grow while the counting
// process lives. Thread-compatible.
struct LatencyCounts {
  static constexpr int kBuckets = 160;
  // counts[i]: more than bound i - 1 and at most bound i; the last: more than all bounds.
  std::array<uint64_t, kBuckets> counts{};

  // The bucket of a time, 0..kBuckets-1.
  static int BucketOf(Seconds took);
  // The most that a request of this bucket took. The last bucket has no such bound: infinity.
  static Seconds Most(int bucket);

  void Add(Seconds took);
  LatencyCounts& operator+=(const LatencyCounts& other);
  // The counts since `before`. Nothing: a bucket has fewer than before, because a counting process
  // has gone.
  std::optional<LatencyCounts> Since(const LatencyCounts& before) const;
  // The time that the share `share` (0..1] of them did not exceed, to within a bucket. Nothing:
  // there are no counts.
  std::optional<Seconds> Percentile(double share) const;

  friend bool operator==(const LatencyCounts&, const LatencyCounts&) = default;
};

// The same counts in less memory, for a holder of many. Immutable except by assignment.
class PackedLatencyCounts {
 public:
  PackedLatencyCounts() = default;  // no counts
  explicit PackedLatencyCounts(const LatencyCounts& counts);

  LatencyCounts Unpack() const;

 private:
  size_t first_ = 0;              // first bucket
  std::vector<uint64_t> counts_;  // from there to the last bucket that is not 0
};

}  // namespace janus
