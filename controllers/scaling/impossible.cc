#include "controllers/scaling/impossible.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace janus::controllers {
namespace {

// A single sequence, and rarely a prompt, with the demand's lengths.
Demand OneSequence(const Demand& demand) {
  constexpr double kHardlyAny = 1e-9;
  Demand one = Scaled(demand, kHardlyAny);
  one.least_running = 1;
  one.burst = one.key_burst = 1;
  return one;
}

// A prediction with a finite TPOT: Steady stops at 16 times the target.
Prediction AtAnyTpot(const Wanted& wanted, Counts c, const Demand& one) {
  ScalingPolicy policy = wanted.policy;
  Prediction found;
  for (int i = 0; i < 8; ++i) {
    found = wanted.predictor.Steady(c, one, policy, wanted.corrections, wanted.tail);
    if (std::isfinite(found.tpot_seconds)) break;
    policy.tpot.seconds *= 16;
  }
  return found;
}

// The largest share of a target or limit that is in use.
double PressureOf(const Prediction& found, const ScalingPolicy& policy) {
  const double ttft = policy.ttft ? found.ttft_seconds / policy.ttft->seconds : 0;
  return std::max(
      {found.tpot_seconds / policy.tpot.seconds, ttft, found.kv_share, found.batch_share});
}

std::string TextOf(Counts c, const Prediction& found, const Wanted& wanted) {
  const ScalingPolicy& policy = wanted.policy;
  char text[256];
  const auto say = [&](const char* what, const char* unit, double best, double target) {
    std::snprintf(text, sizeof(text), "%s %.4g %s at best (%s), %.4g %s wanted", what, best, unit,
                  NameOf(wanted.predictor, c).c_str(), wanted.share * target, unit);
  };
  if (found.tpot_seconds > wanted.share * policy.tpot.seconds) {
    say("TPOT", "ms", found.tpot_seconds * 1e3, policy.tpot.seconds * 1e3);
  } else if (policy.ttft && found.ttft_seconds > wanted.share * policy.ttft->seconds) {
    say("first token", "s", found.ttft_seconds, policy.ttft->seconds);
  } else {
    say("share of the room for keys or sequences", "", std::max(found.kv_share, found.batch_share),
        1);
  }
  std::string all = "no allowed configuration keeps the targets even for one sequence: ";
  all += text;
  if (wanted.share < 1) {
    std::snprintf(text, sizeof(text), " (a change may reach %.0f %% of a target)",
                  wanted.share * 100);
    all += text;
  }
  return all + "; raise the target or allow other GPUs";
}

}  // namespace

std::optional<Impossible> WhyImpossible(const Wanted& wanted, const CountBounds& all) {
  // A single sequence is in one pool; more pools only cost more.
  const CountBounds bounds = OfEach(all, all.min_pools);
  const Demand one = OneSequence(wanted.demand);
  std::optional<Counts> nearest;
  Prediction best;
  const auto consider = [&](Counts c) {
    const Prediction found = AtAnyTpot(wanted, c, one);
    if (nearest && PressureOf(found, wanted.policy) >= PressureOf(best, wanted.policy)) return;
    nearest = c;
    best = found;
  };
  for (int n = std::max(bounds.min_n, bounds.fewest_n), stride = bounds.step_n;
       n <= bounds.max_n;) {
    int low = bounds.min_m;
    while (low <= bounds.max_m && !IsAllowed(bounds, wanted.predictor, {low, n})) {
      low += bounds.step_m;
    }
    int high = bounds.max_m;
    while (high > low && !IsAllowed(bounds, wanted.predictor, {high, n})) high -= bounds.step_m;
    if (low <= bounds.max_m) {
      consider({low, n});
      if (high > low) consider({high, n});
    }
    if (n == bounds.max_n) break;
    n = std::min(n + stride, bounds.max_n);
    stride *= 2;
  }
  if (!nearest || PressureOf(best, wanted.policy) <= wanted.share) return std::nullopt;
  return Impossible{*nearest, TextOf(*nearest, best, wanted)};
}

}  // namespace janus::controllers
