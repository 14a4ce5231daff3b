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

// The seed of the pauses in a scenario's parts. From TestSeed, so that a failed run can be
// repeated; different for each `part`. Never 0.
uint32_t SweepSeed(uint32_t part = 0);

// Plays a scenario with each of `faults` at each of its calls, alone and several calls in a row,
// until no further call can fail; with JANUS_SOAK also with each two at each two calls. Ends at the
// first run with a failed assertion and names it; prints how many runs there were.
//
// `play`: the whole scenario under those faults. It asserts by itself that all ends well.
// `pairs`: for a scenario too long for all pairs: so many are drawn from TestSeed.
void SweepFaults(std::string_view scenario, const std::vector<Fault>& faults,
                 FunctionRef<CallCounts(std::vector<FaultPlan>)> play,
                 std::optional<size_t> pairs = std::nullopt);

}  // namespace janus::control
