#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/doorbell.h"

namespace janus {

// Cores that this process may use: those of its affinity mask, or fewer if its control group has a
// quota. Only whole cores count, so that it does not spin on a core that others may take. At least
// 1.
int UsableCores();

// Cores that a cpu.max text ("<quota> <period>", in microseconds) grants; absent: no limit, or not
// such a text.
std::optional<double> CoresOfQuota(std::string_view cpu_max);

// The cost of waking a sleeping thread here: the median of at most 200 rounds between two threads,
// measured for about 20 ms. Clamped to 1..200 us, so that one disturbed measurement has a limited
// effect.
std::chrono::microseconds MeasureWake();

// The result for its rounds: a wake is half a round. `rounds` is not empty.
std::chrono::microseconds WakeOf(std::vector<std::chrono::nanoseconds> rounds);

// How the step threads and teams of a machine wait. A wait that spins as long as a wake costs is at
// most twice as expensive as the best choice in hindsight (Karlin et al. 1994). If `threads`
// exceeds `cores`, spinning would take the core from the awaited thread, so then no thread spins.
WaitPolicy PolicyFor(int threads, int cores, std::chrono::microseconds wake);

}  // namespace janus
