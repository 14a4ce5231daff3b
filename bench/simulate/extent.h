#pragma once

#include "cli/simulate/command.h"

namespace janus::bench {

// The range of a demand, in GPUs. It is large enough if copies of the whole model peak at 128 or
// more, and if our policy stays three instances above the fewest that hold the model.
struct Extent {
  int peak = 0;    // GPUs for copies of the cheapest whole-model instance in its busiest minute
  int fewest = 0;  // one attention instance, and the fewest expert instances that hold the model
};
inline constexpr int kLeastPeak = 128;
inline constexpr int kLeastAbove = 3;

Result<Extent> ExtentOf(const cli::SimulateOptions& options);

}  // namespace janus::bench
