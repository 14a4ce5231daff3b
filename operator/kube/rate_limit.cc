#include "operator/kube/rate_limit.h"

#include <algorithm>

#include "common/check.h"

namespace janus::control {

RateLimit::RateLimit(double per_second, double burst, MonotonicTime now)
    : per_second_(per_second), burst_(burst), tokens_(burst), as_of_(now) {
  JANUS_CHECK(per_second > 0 && burst >= 1, per_second, burst);
}

void RateLimit::Fill(MonotonicTime now) {
  if (now <= as_of_) return;
  tokens_ = std::min(burst_, tokens_ + Seconds(now - as_of_).count() * per_second_);
  as_of_ = now;
}

bool RateLimit::TryTake(MonotonicTime now) {
  Fill(now);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

MonotonicTime RateLimit::Take(MonotonicTime now) {
  now = std::max(now, as_of_);
  Fill(now);
  tokens_ -= 1;
  if (tokens_ >= 0) return now;
  return now + std::chrono::ceil<MonotonicTime::duration>(Seconds(-tokens_ / per_second_));
}

}  // namespace janus::control
