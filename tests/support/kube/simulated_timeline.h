#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "operator/kube/timeline.h"
#include "tests/support/fake_clock.h"

namespace janus::control {

// Time that passes only when a caller waits, and runs planned actions meanwhile. So one thread
// plays a whole cluster, in the same order every time. An action may itself wait. Confined to one
// thread.
class SimulatedTimeline final : public Timeline {
 public:
  MonotonicTime Now() const override { return clock_.Now(); }
  WallTime WallNow() const override { return clock_.WallNow(); }

  // Runs at once if the time is past.
  void At(MonotonicTime time, std::function<void()> act) { planned_.emplace(time, std::move(act)); }
  void In(Seconds wait, std::function<void()> act) {
    At(Now() + std::chrono::duration_cast<MonotonicTime::duration>(wait), std::move(act));
  }

  bool WaitUntil(MonotonicTime time, const std::stop_token& stop) const override {
    while (!stop.stop_requested() && !planned_.empty() && planned_.begin()->first <= time) {
      const auto next = planned_.extract(planned_.begin());
      AdvanceTo(next.key());
      next.mapped()();
    }
    if (stop.stop_requested()) return false;
    AdvanceTo(time);
    return true;
  }
  void Pass(Seconds time) const {
    WaitUntil(Now() + std::chrono::duration_cast<MonotonicTime::duration>(time), {});
  }

 private:
  void AdvanceTo(MonotonicTime time) const {
    if (time > Now()) clock_.Advance(time - Now());
  }

  mutable FakeClock clock_;
  mutable std::multimap<MonotonicTime, std::function<void()>> planned_;
};

}  // namespace janus::control
