#include "cli/load/histogram.h"

#include <algorithm>
#include <cmath>

namespace janus::cli {
namespace {

constexpr double kLeast = 1e-6;
constexpr double kMost = 1e5;
const double kLogGrowth = std::log(1.01);

size_t BucketOf(double seconds) {
  const double bounded = std::clamp(seconds, kLeast, kMost);
  return static_cast<size_t>(std::floor(std::log(bounded / kLeast) / kLogGrowth));
}

}  // namespace

Histogram::Histogram() : buckets_(BucketOf(kMost) + 1) {}

void Histogram::Add(double seconds) {
  if (std::isnan(seconds)) return;
  ++buckets_[BucketOf(seconds)];
  ++count_;
  sum_ += seconds;
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
}

double Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    // The middle of the bucket is at most half a percent off.
    if (seen >= std::max<int64_t>(wanted, 1)) {
      return kLeast * std::exp((static_cast<double>(i) + 0.5) * kLogGrowth);
    }
  }
  return kMost;
}

}  // namespace janus::cli
