#include "common/latency_pairs.h"

#include <cmath>

namespace janus {
namespace {

// The worst of the four buckets around one.
int Worst(int bucket) {
  static_assert(LatencyCounts::kBuckets % 4 == 0);
  return bucket == LatencyPairs::kNoTpot ? bucket : bucket | 3;
}

// Of a bucket's requests, the share that took no longer than the target.
double ShareWithin(int bucket, Seconds target) {
  const double least = bucket == 0 ? 0 : LatencyCounts::Most(bucket - 1).count();
  const double most = LatencyCounts::Most(bucket).count();
  if (target.count() >= most) return 1;
  if (target.count() <= least || std::isinf(most)) return 0;
  return (target.count() - least) / (most - least);
}

}  // namespace

void LatencyPairs::Add(Seconds ttft, std::optional<Seconds> tpot) {
  Pair pair{LatencyCounts::BucketOf(ttft), tpot ? LatencyCounts::BucketOf(*tpot) : kNoTpot};
  if (counts_.size() >= kMostExact && !counts_.contains(pair)) {
    pair = {Worst(pair.ttft), Worst(pair.tpot)};
  }
  ++counts_[pair];
}

LatencyPairs& LatencyPairs::operator+=(const LatencyPairs& other) {
  for (const auto& [pair, count] : other.counts_) counts_[pair] += count;
  return *this;
}

bool LatencyPairs::Put(const Pair& pair, uint64_t count) {
  const bool is_one = pair.ttft >= 0 && pair.ttft < LatencyCounts::kBuckets && pair.tpot >= 0 &&
                      pair.tpot <= kNoTpot;
  if (is_one && count > 0) counts_[pair] += count;
  return is_one;
}

std::optional<LatencyPairs> LatencyPairs::Since(const LatencyPairs& before) const {
  LatencyPairs out = *this;
  for (const auto& [pair, count] : before.counts_) {
    const auto now = out.counts_.find(pair);
    if (now == out.counts_.end() || now->second < count) return std::nullopt;
    now->second -= count;
    if (now->second == 0) out.counts_.erase(now);
  }
  return out;
}

uint64_t LatencyPairs::total() const {
  uint64_t all = 0;
  for (const auto& [pair, count] : counts_) all += count;
  return all;
}

double LatencyPairs::Within(std::optional<Seconds> ttft, std::optional<Seconds> tpot) const {
  double kept = 0;
  for (const auto& [pair, count] : counts_) {
    double share = 1;
    if (ttft) share *= ShareWithin(pair.ttft, *ttft);
    if (tpot && pair.tpot != kNoTpot) share *= ShareWithin(pair.tpot, *tpot);
    kept += share * static_cast<double>(count);
  }
  return kept;
}

LatencyCounts LatencyPairs::Ttft() const {
  LatencyCounts out;
  for (const auto& [pair, count] : counts_) out.counts[static_cast<size_t>(pair.ttft)] += count;
  return out;
}

LatencyCounts LatencyPairs::Tpot() const {
  LatencyCounts out;
  for (const auto& [pair, count] : counts_) {
    if (pair.tpot != kNoTpot) out.counts[static_cast<size_t>(pair.tpot)] += count;
  }
  return out;
}

}  // namespace janus
