#include "dataplane/steps/step_times.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace janus::dataplane {

void RunningMedian::Add(double value) {
  ring_[static_cast<size_t>(count_ % window_)] = value;
  ++count_;
}

double RunningMedian::value() const {
  if (count_ == 0) return 0.0;
  std::array<double, kMost> sorted = ring_;
  const auto size = static_cast<size_t>(std::min<int64_t>(count_, window_));
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(size / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<ptrdiff_t>(size));
  return *middle;
}

void PrefillRate::Add(int rows, double seconds) {
  constexpr int64_t kForgotten = 128;
  ++recorded_;
  Rate& rate = by_size_[std::bit_width(static_cast<unsigned>(rows)) - 1];
  rate.seconds.Add(seconds / rows);
  rate.last = recorded_;
  std::erase_if(by_size_,
                [&](const auto& size) { return recorded_ - size.second.last >= kForgotten; });
}

double PrefillRate::Fit(double seconds) const {
  constexpr double kOverOne = 1.25;
  if (const auto one = by_size_.find(0); one != by_size_.end())
    seconds = std::max(seconds, kOverOne * one->second.seconds.value());
  double most = 0.0;
  for (auto size = by_size_.begin(); size != by_size_.end(); ++size) {
    const double least = std::ldexp(1.0, size->first);
    double rows = seconds / size->second.seconds.value();
    // More rows than this size share the expert reads, so the rate is cautious for them. For fewer
    // rows it promises too much, so it is used only if no smaller size is known.
    if (size != by_size_.begin() && rows < least) continue;
    const auto larger = std::next(size);
    // More rows may cost little more. Once this size is well known, only a trial shows that.
    const bool next_unknown = larger == by_size_.end() || larger->first > size->first + 1;
    if (rows >= least && next_unknown && size->second.seconds.full())
      rows = std::max(rows, 2.0 * least);
    // Stay below the size of the next known rate. The step then has this size, so that its own
    // measurement corrects a rate that promised too much.
    if (larger != by_size_.end()) rows = std::min(rows, std::ldexp(1.0, larger->first) - 1.0);
    most = std::max(most, rows);
  }
  return most;
}

void StepTimes::Record(const StepRows& rows, Seconds took) {
  if (rows.decode + rows.prefill == 0) return;
  const Seconds decode_alone = rows.decode > 0 ? Predict(rows.decode, 0) : Seconds(0);
  by_kind_[{rows.prefill > 0, (rows.decode + rows.prefill) / 64}].Add(took.count());
  if (rows.prefill == 0) return;
  const double prefill = std::max(took.count() - decode_alone.count(), took.count() * 0.1);
  of_one_.Add(rows.prefill, prefill);
  of_all_.Add(std::max(rows.prefill, rows.prefill_total), prefill);
}

Seconds StepTimes::Predict(int decode_rows, int prefill_rows) const {
  const bool prefill = prefill_rows > 0;
  const auto known = [&](auto at) { return at != by_kind_.end() && at->first.first == prefill; };
  const auto larger = by_kind_.upper_bound({prefill, (decode_rows + prefill_rows) / 64});
  const auto nearest = larger == by_kind_.begin() ? by_kind_.end() : std::prev(larger);
  if (known(nearest)) return Seconds(nearest->second.value());
  return known(larger) ? Seconds(larger->second.value()) : Seconds(0);
}

PrefillBudget StepTimes::Prefill(Seconds target, int decode_rows, double least_share, int most,
                                 int m) const {
  constexpr double kUntilKnown = 64;
  const double decode = decode_rows > 0 ? Predict(decode_rows, 0).count() : 0.0;
  const double left = std::max(target.count() - decode, least_share * decode);
  const auto rows = [&](const PrefillRate& rate, int limit) {
    const double fit = rate.empty() ? kUntilKnown : rate.Fit(left);
    return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(limit)));
  };
  return {rows(of_one_, most), rows(of_all_, most * m)};
}

}  // namespace janus::dataplane
