#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "common/clock.h"
#include "common/latency_counts.h"

namespace janus {

// How many requests had which time to first token together with which time per output token, in the
// buckets of LatencyCounts. From it follows how many kept any pair of targets. Counts only grow
// while the counting process lives.
//
// Bounded: at most kMostExact pairs are exact. A pair that comes later is counted in the worst pair
// of the four by four buckets around it, so that a full table never flatters.
// Thread-compatible.
class LatencyPairs {
 public:
  // In the place of the second bucket: the answer had a single token, so it has no time per output
  // token, and keeps every target for it.
  static constexpr int kNoTpot = LatencyCounts::kBuckets;
  static constexpr size_t kMostExact = 1024;
  // Of a table that only Add has filled.
  static constexpr size_t kMost = kMostExact + size_t{40} * 41;

  struct Pair {
    int ttft = 0;  // bucket
    int tpot = 0;  // bucket, or kNoTpot
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };

  void Add(Seconds ttft, std::optional<Seconds> tpot);
  LatencyPairs& operator+=(const LatencyPairs& other);
  // Adds `count` requests of a pair. False, and nothing is added: there is no such pair.
  bool Put(const Pair& pair, uint64_t count);

  // What came since `before`. Nothing: a pair has fewer than before, so the process that counted is
  // another one.
  std::optional<LatencyPairs> Since(const LatencyPairs& before) const;

  uint64_t total() const;
  // Requests that took at most `ttft` to their first token and at most `tpot` per output token.
  // Within a bucket they are taken to lie evenly. No target: every time keeps it.
  double Within(std::optional<Seconds> ttft, std::optional<Seconds> tpot) const;
  LatencyCounts Ttft() const;
  LatencyCounts Tpot() const;  // of requests that have one

  const std::map<Pair, uint64_t>& counts() const { return counts_; }
  friend bool operator==(const LatencyPairs&, const LatencyPairs&) = default;

 private:
  std::map<Pair, uint64_t> counts_;  // none is 0
};

}  // namespace janus
