#include "controllers/scaling/burst.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace janus::controllers {
namespace {

constexpr double kPerBin = 1.02;
constexpr size_t kBins = 1 + 70 + 1;  // up to four times the level
// Long enough for the night to remember the day, short enough to follow a service that changes.
constexpr double kHalfLife_s = 4 * 3600;

}  // namespace

BurstHistory Seen(BurstHistory history, double load_over_level, double elapsed_seconds) {
  history.weights.resize(kBins, 0);
  const double kept = std::exp2(-std::max(elapsed_seconds, 0.0) / kHalfLife_s);
  for (double& weight : history.weights) weight *= kept;
  const double steps = std::log(std::max(load_over_level, 1.0)) / std::log(kPerBin);
  const auto bin = static_cast<size_t>(std::min(std::ceil(steps), kBins - 1.0));
  history.weights[bin] += load_over_level;
  return history;
}

double BurstAt(const BurstHistory& history, double share, double most) {
  const double all = std::accumulate(history.weights.begin(), history.weights.end(), 0.0);
  // The history must be large enough to expect one load beyond the share.
  if (all <= 0 || all * (1 - share) < 1) return 1;
  double below = 0;
  size_t bin = 0;
  for (; bin + 1 < history.weights.size(); ++bin) {
    below += history.weights[bin];
    if (below >= share * all) break;
  }
  return std::clamp(std::pow(kPerBin, static_cast<double>(bin)), 1.0, std::max(most, 1.0));
}

}  // namespace janus::controllers
