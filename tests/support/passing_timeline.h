#pragma once

#include <vector>

#include "common/mutex.h"
#include "operator/kube/timeline.h"
#include "tests/support/fake_clock.h"

namespace janus::control {

// Time that passes at once when a caller waits. Thread-safe.
class PassingTimeline final : public Timeline {
 public:
  MonotonicTime Now() const override { return clock_.Now(); }
  WallTime WallNow() const override { return clock_.WallNow(); }
  bool WaitUntil(MonotonicTime time, const std::stop_token& stop) const override {
    if (stop.stop_requested()) return false;
    const MutexLock lock(mu_);
    const Seconds wait = time - clock_.Now();
    if (wait > Seconds(0)) clock_.Advance(wait);
    waits_.push_back(wait);
    return true;
  }
  void Advance(Seconds by) { clock_.Advance(by); }
  // All waits so far.
  std::vector<Seconds> waits() const {
    const MutexLock lock(mu_);
    return waits_;
  }

 private:
  mutable Mutex mu_;
  mutable FakeClock clock_;
  mutable std::vector<Seconds> waits_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
