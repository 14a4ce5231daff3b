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
  return *Take(now, MonotonicTime::max());
}

std::optional<MonotonicTime> RateLimit::Take(MonotonicTime now, MonotonicTime before) {
  now = std::max(now, as_of_);
  Fill(now);
  const double left = tokens_ - 1;
  MonotonicTime turn = now;
  if (left < 0) turn += std::chrono::ceil<MonotonicTime::duration>(Seconds(-left / per_second_));
  if (turn >= before) return std::nullopt;
  tokens_ = left;
  return turn;
}

void RateLimit::GiveBack(MonotonicTime now) {
  Fill(now);
  tokens_ = std::min(burst_, tokens_ + 1);
}

}  // namespace janus::control
