#pragma once

#include <array>
#include <cstdint>

namespace janus::controllers {

// Counts of positive durations, in bins 2 % apart, from 0.1 ms to 3 hours.
class DurationHistogram {
 public:
  void Add(double seconds, int64_t count);
  void Clear();
  int64_t count() const { return count_; }
  // The duration that a share `share` of all do not exceed, within 2 %; 0 if empty.
  double Percentile(double share) const;

 private:
  std::array<int64_t, 940> bins_ = {};
  int64_t count_ = 0;
};

}  // namespace janus::controllers
