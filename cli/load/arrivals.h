#pragma once

#include <cstdint>
#include <vector>

#include "cli/trace.h"

namespace janus::cli {

// `count` requests of equal size, as a Poisson process: gaps are exponential with mean 1 / rate.
// The same seed gives the same times on every machine.
std::vector<Arrival> PoissonArrivals(double rate_per_second, int64_t count, int input_tokens,
                                     int output_tokens, uint64_t seed);

}  // namespace janus::cli
