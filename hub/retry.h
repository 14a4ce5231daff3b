#pragma once

#include <optional>

#include "common/clock.h"

namespace janus::hub {

// How long a download may make no progress, and how often it is tried meanwhile.
struct RetryRule {
  int attempts = 10;  // in a row without a new byte
  Seconds patience{60};
  Seconds first_pause{0.5};  // doubled each time
  Seconds longest_pause{8};
};

// The pause before the next attempt; nothing: give up. `attempts` (>= 1) failed in a row without a
// new byte, the last one `since_progress` after the last byte. `asked` is the server's Retry-After;
// it counts if it ends within the patience. Pure.
std::optional<Seconds> PauseBeforeRetry(const RetryRule& rule, int attempts, Seconds since_progress,
                                        std::optional<Seconds> asked);

}  // namespace janus::hub
