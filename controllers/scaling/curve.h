#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace janus::controllers {

// A tabulated function on 0, 1/64 and up, with `per_doubling` points for every doubling. It is
// linear between points and beyond the last two. A rising function stays rising.
class Curve {
 public:
  template <class F>
  Curve(int per_doubling, int doublings, const F& f) : per_doubling_(per_doubling) {
    points_.push_back({0, f(0.0)});
    for (int i = -kBelowOne * per_doubling; i <= per_doubling * doublings; ++i) {
      const double x = std::exp2(static_cast<double>(i) / per_doubling);
      points_.push_back({x, f(x)});
    }
  }

  double operator()(double x) const {
    size_t i = 0;
    if (x >= points_[1].first) {
      i = 1 + static_cast<size_t>((std::log2(x) + kBelowOne) * per_doubling_);
      i = std::min(i, points_.size() - 2);
    }
    const auto& [x0, y0] = points_[i];
    const auto& [x1, y1] = points_[i + 1];
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
  }

 private:
  static constexpr int kBelowOne = 6;  // doublings

  int per_doubling_;
  std::vector<std::pair<double, double>> points_;
};

inline constexpr int kDoublings = 22;  // of rows and of keys: 4 million

}  // namespace janus::controllers
