#pragma once

#include <cstdint>
#include <vector>

namespace janus::cli {

// Durations in seconds, kept as counts in buckets that grow by 1 %: any percentile of any number of
// them within 1 %, in fixed memory. From 1 us to 10^5 s; what lies outside counts as the bound.
// Thread-compatible.
class Histogram {
 public:
  Histogram();
  void Add(double seconds);
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The smallest duration that at least `percent` of them do not exceed; 0 when there are none.
  double Percentile(double percent) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace janus::cli
