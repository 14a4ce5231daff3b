#pragma once

#include "cli/simulate/command.h"

namespace janus::bench {

// How far a demand reaches, in GPUs. Copies of the whole model that peak at 128 have something to
// scale, and what stays three instances above the fewest that hold the model something to decide.
struct Extent {
  int peak = 0;    // what copies of the cheapest whole-model instance take in its busiest minute
  int fewest = 0;  // one attention instance and the fewest experts that hold the model
};
inline constexpr int kLeastPeak = 128;
inline constexpr int kLeastAbove = 3;

Result<Extent> ExtentOf(const cli::SimulateOptions& options);

}  // namespace janus::bench
