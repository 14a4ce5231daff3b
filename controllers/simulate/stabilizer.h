#pragma once

#include <algorithm>
#include <deque>
#include <utility>

namespace janus::controllers {

// The largest value in a window that ends now, like the scale-down stabilization of a pod
// autoscaler.
class Stabilizer {
 public:
  explicit Stabilizer(double window_s) : window_s_(window_s) {}

  double Largest(double now, double value) {
    while (!values_.empty() && values_.back().second <= value) values_.pop_back();
    values_.emplace_back(now, value);
    while (values_.front().first < now - window_s_) values_.pop_front();
    return values_.front().second;
  }

 private:
  const double window_s_;
  std::deque<std::pair<double, double>> values_;  // falling
};

}  // namespace janus::controllers
