#pragma once

#include <atomic>
#include <chrono>

#include "common/clock.h"

namespace janus {

// Time that stands still until a test advances it. Thread-safe.
class FakeClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    return MonotonicTime(MonotonicClock::duration(since_start_.load()));
  }
  WallTime WallNow() const override {
    return WallTime(std::chrono::duration_cast<WallTime::duration>(Now().time_since_epoch()));
  }
  void Advance(Seconds by) {
    since_start_ += std::chrono::duration_cast<MonotonicClock::duration>(by).count();
  }

 private:
  std::atomic<MonotonicClock::rep> since_start_{1'000'000'000'000};
};

}  // namespace janus
