#pragma once

#include <algorithm>
#include <optional>

#include "common/clock.h"

namespace janus::control {

// Brings the time to look again forward to `other`; nothing is never.
inline void BringForward(std::optional<MonotonicTime>& time, MonotonicTime other) {
  time = time ? std::min(*time, other) : other;
}

}  // namespace janus::control
