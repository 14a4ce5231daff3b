#include "controllers/simulate/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace janus::controllers {
namespace {

// The standard fixes the bits of the engine, but not those of the distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
  double Exponential() { return -std::log1p(-Uniform()); }

 private:
  std::mt19937_64 engine_;
};

// Rows per window of the trace.
class WindowRates {
 public:
  WindowRates(std::span<const SimulatedRequest> rows, double window_s)
      : begin_(rows.front().arrival), window_s_(window_s) {
    for (const SimulatedRequest& row : rows) {
      const size_t window = WindowOf(row.arrival);
      if (window >= counts_.size()) counts_.resize(window + 1);
      ++counts_[window];
    }
    last_s_ = std::max(
        rows.back().arrival - begin_ - window_s_ * static_cast<double>(counts_.size() - 1), 1.0);
  }

  double MeanGap(double arrival) const {
    const size_t window = WindowOf(arrival);
    const double length = window + 1 == counts_.size() ? std::min(last_s_, window_s_) : window_s_;
    return length / counts_[window];
  }

 private:
  size_t WindowOf(double arrival) const {
    return static_cast<size_t>((arrival - begin_) / window_s_);
  }

  double begin_;
  double window_s_;
  double last_s_ = 0;  // of the last window, which the trace need not fill
  std::vector<int> counts_;
};

bool IsEarlier(const SimulatedRequest& a, const SimulatedRequest& b) {
  return a.arrival < b.arrival;
}

// A quantile function as a curve through given points.
class LengthCurve {
 public:
  explicit LengthCurve(const LengthDistribution& d) {
    points_ = {Point{0, 1}, {0.5, d.p50}, {0.9, d.p90}, {0.99, d.p99}, {1, d.p99}};
    for (size_t i = 0; i < points_.size(); ++i) {
      points_[i].tokens = std::max(points_[i].tokens, i == 0 ? 1.0 : points_[i - 1].tokens);
    }
    Raise(points_[0], points_[1].tokens, d.mean);
    Raise(points_[4], 4 * points_[3].tokens, d.mean);
  }

  int32_t At(double share) const {
    size_t i = 1;
    while (i + 1 < points_.size() && share > points_[i].share) ++i;
    const double along = (share - points_[i - 1].share) / (points_[i].share - points_[i - 1].share);
    return static_cast<int32_t>(std::lround(
        points_[i - 1].tokens * std::pow(points_[i].tokens / points_[i - 1].tokens, along)));
  }

 private:
  struct Point {
    double share;
    double tokens;
  };

  // Raises a point until the mean is right or the limit is reached. The mean grows with every
  // point.
  void Raise(Point& point, double most, double mean) {
    double low = point.tokens;
    double high = most;
    for (int i = 0; i < 40; ++i) {
      point.tokens = (low + high) / 2;
      (Mean() < mean ? low : high) = point.tokens;
    }
    point.tokens = low;
  }

  double Mean() const {
    double mean = 0;
    for (size_t i = 1; i < points_.size(); ++i) {
      const double a = points_[i - 1].tokens;
      const double b = points_[i].tokens;
      const double of_segment = b > a ? (b - a) / std::log(b / a) : a;
      mean += (points_[i].share - points_[i - 1].share) * of_segment;
    }
    return mean;
  }

  std::array<Point, 5> points_;
};

}  // namespace

std::vector<SimulatedRequest> SpreadDemand(std::span<const SimulatedRequest> rows,
                                           const Replay& replay) {
  std::vector<SimulatedRequest> spread;
  if (rows.empty()) return spread;
  const WindowRates rates(rows, replay.window_s);
  Random random(replay.seed);
  double owed = random.Uniform();  // requests not created yet: rounding then loses none
  for (const SimulatedRequest& row : rows) {
    owed += replay.factor * row.weight;
    const auto requests = static_cast<int64_t>(owed);
    owed -= static_cast<double>(requests);
    const int64_t groups = (requests + replay.max_weight - 1) / replay.max_weight;
    // A trace that is replayed unchanged keeps its times.
    const double interval = requests > 1 ? rates.MeanGap(row.arrival) : 0;
    for (int64_t g = 0; g < groups; ++g) {
      SimulatedRequest group = row;
      group.weight = static_cast<int32_t>(requests * (g + 1) / groups - requests * g / groups);
      group.arrival +=
          interval * (static_cast<double>(g) + random.Uniform()) / static_cast<double>(groups);
      spread.push_back(group);
    }
  }
  std::ranges::stable_sort(spread, IsEarlier);
  return spread;
}

std::vector<SimulatedRequest> DrawDemand(std::span<const RateWindow> windows,
                                         const Replay& replay) {
  std::vector<SimulatedRequest> drawn;
  Random random(replay.seed);
  double length_s = replay.window_s;
  for (size_t w = 0; w < windows.size(); ++w) {
    const RateWindow& window = windows[w];
    if (w + 1 < windows.size()) length_s = windows[w + 1].start_s - window.start_s;
    const double rate = window.rate * replay.factor / replay.max_weight;
    if (rate <= 0) continue;
    const LengthCurve input(window.input);
    const LengthCurve output(window.output);
    for (double at = random.Exponential() / rate; at < length_s;
         at += random.Exponential() / rate) {
      SimulatedRequest request;
      request.arrival = window.start_s + at;
      request.input = input.At(random.Uniform());
      request.output = output.At(random.Uniform());
      request.weight = replay.max_weight;
      drawn.push_back(request);
    }
  }
  return drawn;
}

}  // namespace janus::controllers
