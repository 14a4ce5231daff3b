#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/function_ref.h"
#include "tests/support/kube/faulty_api.h"

namespace janus::control {

// What a scenario's parts draw their pauses with: the same in every run of a process, from
// TestSeed, so that a run that failed can be played again; another for each `part`. Never 0.
uint32_t SweepSeed(uint32_t part = 0);

// Plays a scenario with each of `faults` at each of its calls, alone and several calls in a row,
// until no call is left to fail; with JANUS_SOAK also with each two at each two calls. Ends at the
// first run in which a test's assertion fails, and names it; prints how many runs there were.
//
// `play`: the scenario under those faults, from its beginning. It asserts by itself that all ends
// well.
// `pairs`: for a scenario too long to be played with all of these: as many are drawn from TestSeed.
void SweepFaults(std::string_view scenario, const std::vector<Fault>& faults,
                 FunctionRef<CallCounts(std::vector<FaultPlan>)> play,
                 std::optional<size_t> pairs = std::nullopt);

}  // namespace janus::control
