#pragma once

#include <cmath>
#include <utility>
#include <vector>

namespace janus::bench {

// y = a + b * x.
struct Line {
  double a = 0.0;
  double b = 0.0;
};

// Fits a line through points (x, y) by least squares of relative differences: a point weighs 1 /
// y^2. The error of a time is proportional to the time. With equal weights only the longest times
// would count, and `a`, the fixed cost of a call, would be their noise. Every y must be > 0; a NaN
// means "not measured" and is left out. NaN if there are not two different x.
inline Line FitLine(std::vector<std::pair<double, double>> points) {
  std::erase_if(points, [](const auto& point) { return std::isnan(point.second); });
  double n = 0, sum_x = 0, sum_y = 0;
  for (const auto& [x, y] : points) {
    const double weight = 1.0 / (y * y);
    n += weight;
    sum_x += weight * x;
    sum_y += weight * y;
  }
  // Subtracts the means first: bytes reach 10^10, and differences of their squares would lose the
  // precision of a double.
  const double mean_x = sum_x / n, mean_y = sum_y / n;
  double xx = 0, xy = 0;
  for (const auto& [x, y] : points) {
    xx += (x - mean_x) * (x - mean_x) / (y * y);
    xy += (x - mean_x) * (y - mean_y) / (y * y);
  }
  const double b = xy / xx;
  return {mean_y - b * mean_x, b};
}

}  // namespace janus::bench
