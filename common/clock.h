#pragma once

#include <chrono>

namespace janus {

using Seconds = std::chrono::duration<double>;
using MonotonicClock = std::chrono::steady_clock;
using MonotonicTime = MonotonicClock::time_point;
using WallTime = std::chrono::system_clock::time_point;

// The source of time. Only the main loop of a binary holds a clock; pure code gets `now` as a
// value. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;  // intervals and deadlines
  virtual WallTime WallNow() const = 0;   // for people: status, logs
};

class SystemClock final : public Clock {
 public:
  MonotonicTime Now() const override { return MonotonicClock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
};

}  // namespace janus
