#include "dataplane/engine/step_times.h"

#include <algorithm>

namespace janus::dataplane {

void RunningMedian::Add(double value) {
  ring_[static_cast<size_t>(count_ % kWindow)] = value;
  ++count_;
}

double RunningMedian::value() const {
  if (count_ == 0) return 0.0;
  std::array<double, kWindow> sorted = ring_;
  const auto size = static_cast<size_t>(std::min<int64_t>(count_, kWindow));
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(size / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<ptrdiff_t>(size));
  return *middle;
}

void StepTimes::Record(int decode_rows, int prefill_rows, Seconds took) {
  const int rows = decode_rows + prefill_rows;
  if (rows == 0) return;
  const Seconds decode_alone = decode_rows > 0 ? Predict(decode_rows, 0) : Seconds(0);
  by_kind_[{prefill_rows > 0, rows / 64}].Add(took.count());
  if (prefill_rows > 0) {
    const double prefill = std::max(took.count() - decode_alone.count(), took.count() * 0.1);
    seconds_per_prefill_row_.Add(prefill / prefill_rows);
  }
}

Seconds StepTimes::Predict(int decode_rows, int prefill_rows) const {
  const bool prefill = prefill_rows > 0;
  const auto known = [&](auto at) { return at != by_kind_.end() && at->first.first == prefill; };
  const auto larger = by_kind_.upper_bound({prefill, (decode_rows + prefill_rows) / 64});
  const auto nearest = larger == by_kind_.begin() ? by_kind_.end() : std::prev(larger);
  if (known(nearest)) return Seconds(nearest->second.value());
  return known(larger) ? Seconds(larger->second.value()) : Seconds(0);
}

int StepTimes::PrefillRows(Seconds target, int decode_rows, int least, int most) const {
  least = std::min(least, most);
  if (seconds_per_prefill_row_.empty()) return std::clamp(64, least, most);
  const double left = target.count() - Predict(decode_rows, 0).count();
  const double rows = left / seconds_per_prefill_row_.value();
  return static_cast<int>(std::clamp(rows, static_cast<double>(least), static_cast<double>(most)));
}

}  // namespace janus::dataplane
