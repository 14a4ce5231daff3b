#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/clock.h"

namespace janus::control {

// Moves `time` forward to `other` if that is earlier; nothing means never.
inline void BringForward(std::optional<MonotonicTime>& time, MonotonicTime other) {
  time = time ? std::min(*time, other) : other;
}

inline MonotonicTime At(MonotonicTime now, Seconds later) {
  return now + std::chrono::duration_cast<MonotonicTime::duration>(later);
}

}  // namespace janus::control
