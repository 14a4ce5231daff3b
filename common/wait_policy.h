#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/doorbell.h"

namespace janus {

// Cores this process may use: those of its affinity mask, or fewer where its control group has a
// quota (whole ones: do not spin on a core that others may take); at least 1.
int UsableCores();

// Cores that a cpu.max text ("<quota> <period>", in microseconds) grants; absent: no bound, or not
// such a text.
std::optional<double> CoresOfQuota(std::string_view cpu_max);

// What it costs to wake a sleeping thread here: the median over at most 200 rounds between two
// threads, for 20 ms or little more. Between 1 and 200 us, so that one disturbed measurement
// cannot make waiting absurd.
std::chrono::microseconds MeasureWake();

// What its rounds come to: a wake is half a round. `rounds` is not empty.
std::chrono::microseconds WakeOf(std::vector<std::chrono::nanoseconds> rounds);

// How the step threads and teams of a machine wait. A wait that spins as long as a wake costs is at
// most twice as dear as the best choice in hindsight (Karlin et al. 1994); where `threads`
// outnumber `cores` it would take the core from the very thread that it waits for, so no thread
// spins.
WaitPolicy PolicyFor(int threads, int cores, std::chrono::microseconds wake);

}  // namespace janus
