#include "common/latency_counts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

namespace janus {
namespace {

constexpr double kFirst = 1e-3;       // seconds, bound 0
constexpr double kToADoubling = 8.0;  // buckets per doubling

double Bound(int bucket) {
  return kFirst * std::exp2(bucket / kToADoubling);
}

}  // namespace

int LatencyCounts::BucketOf(Seconds took) {
  if (!(took.count() > kFirst)) return 0;
  const double place = std::ceil(std::log2(took.count() / kFirst) * kToADoubling);
  return static_cast<int>(std::min(place, double{kBuckets - 1}));
}

Seconds LatencyCounts::Most(int bucket) {
  return Seconds(bucket == kBuckets - 1 ? std::numeric_limits<double>::infinity() : Bound(bucket));
}

void LatencyCounts::Add(Seconds took) {
  ++counts[static_cast<size_t>(BucketOf(took))];
}

LatencyCounts& LatencyCounts::operator+=(const LatencyCounts& other) {
  std::ranges::transform(counts, other.counts, counts.begin(), std::plus<>());
  return *this;
}

std::optional<LatencyCounts> LatencyCounts::Since(const LatencyCounts& before) const {
  LatencyCounts out;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < before.counts[i]) return std::nullopt;
    out.counts[i] = counts[i] - before.counts[i];
  }
  return out;
}

std::optional<Seconds> LatencyCounts::Percentile(double share) const {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  if (all == 0) return std::nullopt;
  const double wanted = share * all;
  double below = 0;
  for (int i = 0; i < kBuckets; ++i) {
    const auto here = static_cast<double>(counts[static_cast<size_t>(i)]);
    const double least = i == 0 ? 0 : Bound(i - 1);
    if (i == kBuckets - 1) return Seconds(least);  // at least that much
    if (here > 0 && below + here >= wanted) {
      return Seconds(least + (Bound(i) - least) * (wanted - below) / here);
    }
    below += here;
  }
  return std::nullopt;
}

PackedLatencyCounts::PackedLatencyCounts(const LatencyCounts& counts) {
  const auto is_some = [](uint64_t count) { return count != 0; };
  const auto& all = counts.counts;
  const auto first = std::find_if(all.begin(), all.end(), is_some);
  const auto end = std::find_if(all.rbegin(), std::make_reverse_iterator(first), is_some).base();
  first_ = static_cast<size_t>(first - all.begin());
  counts_.assign(first, end);
}

LatencyCounts PackedLatencyCounts::Unpack() const {
  LatencyCounts out;
  std::ranges::copy(counts_, out.counts.begin() + static_cast<std::ptrdiff_t>(first_));
  return out;
}

}  // namespace janus
