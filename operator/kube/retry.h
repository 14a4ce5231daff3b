#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "common/clock.h"
#include "operator/kube/error.h"

namespace janus::control {

struct RetryPolicy {
  int max_attempts = 5;       // the first one included
  Seconds first_pause{0.25};  // doubled with each attempt,
  Seconds longest_pause{10};  // up to this; a server's Retry-After may be longer
};

// What is drawn from it is the same for one seed. 0: a seed of its own in each process and place.
std::minstd_rand RandomOf(uint32_t seed);

// A pause after `attempt` failures, >= 1: `first`, doubled with each further one up to `longest`.
// Half to all of it is drawn from `random`, so that clients that failed together do not come back
// together.
Seconds BackoffPause(Seconds first, Seconds longest, int attempt, std::minstd_rand& random);

// What doing a call twice does.
enum class Repeat {
  kHarmless,  // reads, server-side apply
  kHarmful,   // whatever else writes
};

// How long to wait before the same call again; nothing: give the error to the caller. A call that
// was refused, or never left, is tried again whatever it does. One whose outcome is unknown only
// when doing it twice is harmless: a create whose reply was lost must not become two objects.
// `attempt`: how many there were, >= 1. At least a BackoffPause.
std::optional<Seconds> PauseBeforeRetry(const RetryPolicy& policy, int attempt,
                                        const ApiError& error, Repeat repeat,
                                        std::minstd_rand& random);

}  // namespace janus::control
