#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "common/clock.h"

namespace janus::control {

// A clock that can also wait, for the few loops that pause between attempts. In tests, waiting
// advances the time at once. Thread-safe.
class Timeline : public Clock {
 public:
  // False if `stop` was requested first.
  virtual bool WaitUntil(MonotonicTime time, const std::stop_token& stop) const = 0;
};

class SystemTimeline final : public Timeline {
 public:
  MonotonicTime Now() const override { return MonotonicClock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
  bool WaitUntil(MonotonicTime time, const std::stop_token& stop) const override {
    std::mutex mu;
    std::condition_variable_any never;
    std::unique_lock lock(mu);
    never.wait_until(lock, stop, time, [] { return false; });
    return !stop.stop_requested();
  }
};

}  // namespace janus::control
