#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "common/clock.h"
#include "operator/kube/error.h"

namespace janus::control {

struct RetryPolicy {
  int max_attempts = 5;       // including the first
  Seconds first_pause{0.25};  // doubled with each attempt,
  Seconds longest_pause{10};  // up to this; a server's Retry-After may exceed it
};

// A generator that repeats its sequence for one seed. 0: a different seed in each process and
// place.
std::minstd_rand RandomOf(uint32_t seed);

// The pause after `attempt` failures, >= 1: `first`, doubled for each further one, up to `longest`.
// Half of it is random, so that clients that failed together do not return together.
Seconds BackoffPause(Seconds first, Seconds longest, int attempt, std::minstd_rand& random);

// What happens if a call is executed twice.
enum class Repeat {
  kHarmless,  // reads, server-side apply
  kHarmful,   // all other writes
};

// How long to wait before a retry; nothing: give the error to the caller. A call that was refused
// or never sent is always retried. A call with an unknown outcome is retried only if repeating it
// is harmless: a create with a lost reply must not create two objects. `attempt`: attempts so far,
// >= 1. The pause is at least a BackoffPause.
std::optional<Seconds> PauseBeforeRetry(const RetryPolicy& policy, int attempt,
                                        const ApiError& error, Repeat repeat,
                                        std::minstd_rand& random);

}  // namespace janus::control
