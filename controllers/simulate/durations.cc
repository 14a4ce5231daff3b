#include "controllers/simulate/durations.h"

#include <algorithm>
#include <cmath>

namespace janus::controllers {
namespace {

constexpr double kShortest = 1e-4;
constexpr double kStep = 0.019802627296179713;  // ln 1.02

}  // namespace

void DurationHistogram::Add(double seconds, int64_t count) {
  const double bin = std::log(std::max(seconds, kShortest) / kShortest) / kStep;
  bins_[std::min(static_cast<size_t>(bin), bins_.size() - 1)] += count;
  count_ += count;
}

void DurationHistogram::Clear() {
  if (count_ > 0) bins_.fill(0);
  count_ = 0;
}

double DurationHistogram::Percentile(double share) const {
  if (count_ == 0) return 0;
  const double wanted = share * static_cast<double>(count_);
  int64_t seen = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    seen += bins_[i];
    if (bins_[i] > 0 && static_cast<double>(seen) >= wanted) {
      return kShortest * std::exp(kStep * (static_cast<double>(i) + 0.5));
    }
  }
  return kShortest * std::exp(kStep * static_cast<double>(bins_.size()));
}

}  // namespace janus::controllers
