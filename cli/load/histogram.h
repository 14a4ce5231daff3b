#pragma once

#include <cstdint>
#include <vector>

namespace janus::cli {

// Counts durations, in seconds, in buckets that grow by 1 %. Gives any percentile within 1 % in
// fixed memory, however many durations were added. The range is 1 us to 10^5 s; a value outside
// counts as the nearer bound. Thread-compatible.
class Histogram {
 public:
  Histogram();
  void Add(double seconds);
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The smallest duration that at least `percent` of all durations do not exceed; 0 if the
  // histogram is empty.
  double Percentile(double percent) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace janus::cli
