#include "dataplane/steps/detection_deadline.h"

#include <algorithm>

namespace janus::dataplane {
namespace {

constexpr double kOfPercentile = 8.0;
constexpr double kOfLongest = 2.0;
// How often shorter waits take effect. Sorting the window every time would slow steps down.
constexpr int kRecomputeEvery = 128;

}  // namespace

DetectionDeadline::DetectionDeadline(Seconds least, Seconds most)
    : least_(least), most_(most), value_(most) {}

void DetectionDeadline::OnArrival(Seconds waited) {
  waits_[static_cast<size_t>(count_ % kWindow)] = static_cast<float>(waited.count());
  ++count_;
  // A longer wait takes effect at once: the next round may take as long.
  value_ = std::min(most_, std::max(value_, kOfLongest * waited));
  if (count_ >= kWindow && count_ % kRecomputeEvery == 0) Recompute();
}

void DetectionDeadline::Recompute() {
  sorted_ = waits_;
  const auto p99 = sorted_.begin() + (kWindow - 1) * 99 / 100;
  std::nth_element(sorted_.begin(), p99, sorted_.end());
  const Seconds percentile(*p99);
  const Seconds longest(*std::max_element(p99, sorted_.end()));
  value_ = std::min(most_, std::max({least_, kOfPercentile * percentile, kOfLongest * longest}));
}

}  // namespace janus::dataplane
