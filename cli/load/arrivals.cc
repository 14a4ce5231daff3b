#include "cli/load/arrivals.h"

#include <cmath>
#include <random>

namespace janus::cli {

std::vector<Arrival> PoissonArrivals(double rate_per_second, int64_t count, int input_tokens,
                                     int output_tokens, uint64_t seed) {
  // The standard fixes the bits of the engine but not those of the distributions. The logarithm is
  // therefore taken here.
  std::mt19937_64 random(seed);
  std::vector<Arrival> arrivals;
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    arrivals.push_back({now, input_tokens, output_tokens});
    const double uniform = static_cast<double>((random() >> 11) + 1) * 0x1p-53;  // (0, 1]
    now += -std::log(uniform) / rate_per_second;
  }
  return arrivals;
}

}  // namespace janus::cli
