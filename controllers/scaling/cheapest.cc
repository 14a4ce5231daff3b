#include "controllers/scaling/cheapest.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace janus::controllers {
namespace {

int RoundUp(int value, int step) {
  return (value + step - 1) / step * step;
}

// The fewest m in [low, high] (multiples of the step) that may keep it with n, looked for around
// `start`; 0: none.
int FewestThatMay(const Wanted& wanted, int n, int low, int high, int step, int start) {
  const auto may = [&](int m) { return wanted.MayKeep(low, {m, n}); };
  int m = std::clamp(start, low, high);
  if (may(m)) {
    while (m - step >= low && may(m - step)) m -= step;
    return m;
  }
  // Up in growing strides, then back between the last that does not and the first that does.
  int fails = m;
  int stride = step;
  while (true) {
    if (fails >= high) return 0;
    m = std::min(fails + stride, high);
    if (may(m)) break;
    fails = m;
    stride *= 2;
  }
  while (m - fails > step) {
    const int middle = fails + (m - fails) / step / 2 * step;
    (may(middle) ? m : fails) = middle;
  }
  return m;
}

}  // namespace

CountBounds BoundsOf(const Predictor& predictor, const ScalingPolicy& policy) {
  CountBounds bounds;
  bounds.step_m = policy.attention.instances_per_pod;
  bounds.step_n = policy.experts.instances_per_pod;
  const auto down = [](int value, int step) { return value / step * step; };
  bounds.min_m = RoundUp(policy.attention.min, bounds.step_m);
  bounds.max_m =
      down(std::min(policy.attention.max, predictor.options().max_attention), bounds.step_m);
  bounds.min_n = RoundUp(std::max(policy.experts.min, predictor.FewestExperts()), bounds.step_n);
  bounds.max_n = down(std::min(policy.experts.max, predictor.options().max_experts), bounds.step_n);
  bounds.max_gpus = policy.max_gpus;
  bounds.ratio_min = policy.ratio_min;
  bounds.ratio_max = policy.ratio_max;
  return bounds;
}

bool IsAllowed(const CountBounds& b, const Predictor& predictor, int m, int n) {
  const auto below = [&](const Ratio& r) { return n * r.attention < m * r.experts; };
  const auto above = [&](const Ratio& r) { return n * r.attention > m * r.experts; };
  return m >= b.min_m && m <= b.max_m && m % b.step_m == 0 && n >= b.min_n && n <= b.max_n &&
         n % b.step_n == 0 && (b.max_gpus == 0 || predictor.GpusOf(m, n) <= b.max_gpus) &&
         !(b.ratio_min && below(*b.ratio_min)) && !(b.ratio_max && above(*b.ratio_max));
}

std::optional<Counts> LargestAllowed(const CountBounds& b, const Predictor& predictor) {
  std::optional<Counts> largest;
  for (int n = b.min_n; n <= b.max_n; n += b.step_n) {
    for (int m = b.min_m; m <= b.max_m; m += b.step_m) {
      if (!IsAllowed(b, predictor, m, n)) continue;
      if (largest && predictor.GpusOf(m, n) <= predictor.GpusOf(largest->m, largest->n)) continue;
      largest = {m, n};
    }
  }
  return largest;
}

std::optional<Counts> NearestAllowed(const CountBounds& b, const Predictor& predictor,
                                     Counts from) {
  std::optional<Counts> nearest;
  const auto away = [&](Counts c) {
    return std::pair(std::abs(c.m - from.m) + std::abs(c.n - from.n), predictor.GpusOf(c.m, c.n));
  };
  for (int n = b.min_n; n <= b.max_n; n += b.step_n) {
    for (int m = b.min_m; m <= b.max_m; m += b.step_m) {
      if (!IsAllowed(b, predictor, m, n)) continue;
      if (!nearest || away({m, n}) < away(*nearest)) nearest = {m, n};
    }
  }
  return nearest;
}

std::optional<Counts> Cheapest(const Wanted& wanted, const CountBounds& bounds, Counts near) {
  const Predictor& predictor = wanted.predictor;
  std::optional<Counts> best;
  const auto cost_of = [&](Counts c) { return predictor.CostOf(c.m, c.n); };
  const auto distance = [&](Counts c) { return std::abs(c.m - near.m) + std::abs(c.n - near.n); };
  int start = bounds.min_m;
  for (int n = bounds.min_n; n <= bounds.max_n; n += bounds.step_n) {
    // The m that the limits leave for this n.
    int low = bounds.min_m;
    int high = bounds.max_m;
    if (bounds.ratio_max) {  // n / m <= max
      low =
          std::max(low, RoundUp((n * bounds.ratio_max->attention + bounds.ratio_max->experts - 1) /
                                    bounds.ratio_max->experts,
                                bounds.step_m));
    }
    if (bounds.ratio_min) {  // n / m >= min
      high = std::min(high, n * bounds.ratio_min->attention / bounds.ratio_min->experts);
    }
    const double one = predictor.CostOf(1, 0);
    if (best) {
      const double left = cost_of(*best) - predictor.CostOf(0, n);
      if (left < one * bounds.min_m) break;
      high = std::min(high, static_cast<int>(left / one + 1e-9));
    }
    if (bounds.max_gpus > 0) {
      high = std::min(high, (bounds.max_gpus - predictor.GpusOf(0, n)) / predictor.GpusOf(1, 0));
    }
    high = high / bounds.step_m * bounds.step_m;
    if (low > high) continue;
    int m = FewestThatMay(wanted, n, low, high, bounds.step_m, start);
    if (m == 0) continue;
    start = m;
    while (m <= high && !wanted.Keeps({m, n})) m += bounds.step_m;
    if (m > high) continue;
    const Counts found = {m, n};
    if (!best || cost_of(found) < cost_of(*best) ||
        (cost_of(found) == cost_of(*best) && distance(found) < distance(*best))) {
      best = found;
    }
  }
  return best;
}

Demand Scaled(const Demand& demand, double factor) {
  Demand scaled = demand;
  scaled.requests_per_second *= factor;
  scaled.prompt_tokens_per_second *= factor;
  scaled.output_tokens_per_second *= factor;
  scaled.least_running *= factor;
  return scaled;
}

std::optional<Partial> CheapestForMost(const Wanted& wanted, const CountBounds& bounds,
                                       Counts near) {
  constexpr int kParts = 64;
  std::optional<Partial> best;
  int low = 0;
  int high = kParts + 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    const double carried = static_cast<double>(middle) / kParts;
    const Demand part = Scaled(wanted.demand, carried);
    const auto counts = Cheapest(
        {wanted.predictor, wanted.policy, part, wanted.share, wanted.corrections, wanted.tail},
        bounds, near);
    if (counts) {
      best = {carried, *counts};
      low = middle;
    } else {
      high = middle;
    }
  }
  return best;
}

}  // namespace janus::controllers
