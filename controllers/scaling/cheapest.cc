#include "controllers/scaling/cheapest.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace janus::controllers {
namespace {

int RoundUp(int value, int step) {
  return (value + step - 1) / step * step;
}
int RoundDown(int value, int step) {
  return value / step * step;
}
int DivideUp(int value, int by) {
  return (value + by - 1) / by;
}

// The range of m of a pool that the limits allow for n; empty if low > high.
std::pair<int, int> RangeOfAttention(const CountBounds& each, const Predictor& predictor, int n) {
  int low = each.min_m;
  int high = each.max_m;
  if (each.ratio_max) {  // n / m <= max
    low = std::max(low, RoundUp(DivideUp(n * each.ratio_max->attention, each.ratio_max->experts),
                                each.step_m));
  }
  if (each.ratio_min) {  // n / m >= min
    high = std::min(high, n * each.ratio_min->attention / each.ratio_min->experts);
  }
  if (each.max_gpus > 0) {
    high = std::min(high, (each.max_gpus - predictor.GpusOf(0, n)) / predictor.GpusOf(1, 0));
  }
  return {low, RoundDown(high, each.step_m)};
}

// The fewest m in [low, high] (multiples of the step) that may keep the target with n, searched
// from `start`; 0: no m may.
template <class May>
int FewestThatMay(const May& may, int low, int high, int step, int start) {
  int m = std::clamp(start, low, high);
  if (may(m)) {
    while (m - step >= low && may(m - step)) m -= step;
    return m;
  }
  // Grows m in increasing strides, then searches between the last m that fails and the first that
  // may keep it.
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

int Distance(const Counts& a, const Counts& b) {
  return std::abs(a.Attention() - b.Attention()) + std::abs(a.Experts() - b.Experts());
}

// Searches one number of pools, and replaces `best` if it finds better counts.
void SearchPool(const Wanted& wanted, const CountBounds& bounds, int pools, const Counts& near,
                std::optional<Counts>& best) {
  const Predictor& predictor = wanted.predictor;
  const Demand demand = ShareOf(wanted.demand, pools);
  const CountBounds each = OfEach(bounds, pools);
  const double one = predictor.CostOf(1, 0);
  int start = each.min_m;
  for (int n = each.min_n; n <= each.max_n; n += std::max(each.step_n, 1)) {
    auto [low, high] = RangeOfAttention(each, predictor, n);
    if (best) {
      const double left = predictor.CostOf(*best) / pools - predictor.CostOf(0, n);
      if (left < one * each.min_m - 1e-9) break;
      high = std::min(high, RoundDown(static_cast<int>(left / one + 1e-9), each.step_m));
    }
    if (low > high) continue;
    const auto may = [&](int m) {
      return predictor.MayKeep(low, m, n, demand, wanted.policy, wanted.share, wanted.corrections,
                               wanted.tail);
    };
    int m = FewestThatMay(may, low, high, each.step_m, start);
    if (m == 0) continue;
    start = m;
    const auto keeps = [&] {
      return predictor.Keeps(m, n, demand, wanted.policy, wanted.share, wanted.corrections,
                             wanted.tail);
    };
    while (m <= high && !keeps()) m += each.step_m;
    if (m > high) continue;
    const Counts found = {m, n, pools};
    const double cost = predictor.CostOf(found);
    const double least = best ? predictor.CostOf(*best) : HUGE_VAL;
    const bool is_nearer =
        best && best->pools == pools && Distance(found, near) < Distance(*best, near);
    if (cost < least - 1e-9 || (cost <= least + 1e-9 && is_nearer)) best = found;
  }
}

// Visits all allowed counts.
template <class Visit>
void ForEachAllowed(const CountBounds& bounds, const Predictor& predictor, const Visit& visit) {
  for (int pools = bounds.min_pools; pools <= bounds.max_pools; ++pools) {
    const CountBounds each = OfEach(bounds, pools);
    for (int n = each.min_n; n <= each.max_n; n += std::max(each.step_n, 1)) {
      const auto [low, high] = RangeOfAttention(each, predictor, n);
      for (int m = low; m <= high; m += each.step_m) visit(Counts{m, n, pools});
    }
  }
}

}  // namespace

CountBounds BoundsOf(const Predictor& predictor, const ScalingPolicy& policy) {
  CountBounds bounds;
  if (const WholeConfiguration* whole = predictor.Whole()) {
    bounds.step_m = bounds.most_m = bounds.min_m = whole->gpus;
    bounds.min_n = bounds.max_n = bounds.fewest_n = bounds.most_n = 0;
    const int gpus = policy.attention.max + policy.experts.max;
    bounds.max_gpus = policy.max_gpus > 0 ? std::min(policy.max_gpus, gpus) : gpus;
    bounds.max_pools = bounds.max_gpus / whole->gpus;
    bounds.max_m = bounds.max_pools * whole->gpus;
    return bounds;
  }
  bounds.step_m = policy.attention.instances_per_pod;
  bounds.step_n = policy.experts.instances_per_pod;
  bounds.most_m = predictor.options().max_attention;
  bounds.most_n = predictor.options().max_experts;
  bounds.fewest_n = predictor.FewestExperts();
  bounds.min_pools = policy.min_pools;
  bounds.max_pools = policy.max_pools;
  bounds.min_m = RoundUp(policy.attention.min, bounds.step_m);
  bounds.max_m =
      RoundDown(std::min(policy.attention.max, policy.max_pools * bounds.most_m), bounds.step_m);
  bounds.min_n =
      RoundUp(std::max(policy.experts.min, policy.min_pools * bounds.fewest_n), bounds.step_n);
  bounds.max_n =
      RoundDown(std::min(policy.experts.max, policy.max_pools * bounds.most_n), bounds.step_n);
  bounds.max_gpus = policy.max_gpus;
  bounds.ratio_min = policy.ratio_min;
  bounds.ratio_max = policy.ratio_max;
  return bounds;
}

CountBounds OfEach(const CountBounds& all, int pools) {
  CountBounds each = all;
  each.min_pools = each.max_pools = 1;
  each.min_m = RoundUp(std::max(DivideUp(all.min_m, pools), 1), all.step_m);
  each.max_m = RoundDown(std::min(all.max_m / pools, all.most_m), all.step_m);
  each.min_n = RoundUp(std::max(DivideUp(all.min_n, pools), all.fewest_n), all.step_n);
  each.max_n = RoundDown(std::min(all.max_n / pools, all.most_n), all.step_n);
  each.max_gpus = all.max_gpus / pools;
  // There are fewer GPUs than pools. A limit of 0 would mean none.
  if (all.max_gpus > 0 && each.max_gpus == 0) each.max_m = each.max_n = 0;
  return each;
}

bool IsAllowed(const CountBounds& b, const Predictor& predictor, const Counts& c) {
  if (c.pools < b.min_pools || c.pools > b.max_pools) return false;
  if (c.Attention() < b.min_m || c.Attention() > b.max_m || c.Experts() < b.min_n) return false;
  if (c.Experts() > b.max_n || c.m > b.most_m || c.n > b.most_n || c.n < b.fewest_n) return false;
  if (c.m % b.step_m != 0 || c.n % b.step_n != 0) return false;
  if (b.max_gpus > 0 && predictor.GpusOf(c) > b.max_gpus) return false;
  const auto below = [&](const Ratio& r) { return c.n * r.attention < c.m * r.experts; };
  const auto above = [&](const Ratio& r) { return c.n * r.attention > c.m * r.experts; };
  return !(b.ratio_min && below(*b.ratio_min)) && !(b.ratio_max && above(*b.ratio_max));
}

std::optional<Counts> LargestAllowed(const CountBounds& b, const Predictor& predictor) {
  std::optional<Counts> largest;
  ForEachAllowed(b, predictor, [&](const Counts& c) {
    if (!largest || predictor.GpusOf(c) > predictor.GpusOf(*largest)) largest = c;
  });
  return largest;
}

std::optional<Counts> NearestAllowed(const CountBounds& b, const Predictor& predictor,
                                     Counts from) {
  std::optional<Counts> nearest;
  const auto away = [&](const Counts& c) {
    return std::pair(Distance(c, from), predictor.GpusOf(c));
  };
  ForEachAllowed(b, predictor, [&](const Counts& c) {
    if (!nearest || away(c) < away(*nearest)) nearest = c;
  });
  return nearest;
}

std::optional<Counts> Cheapest(const Wanted& wanted, const CountBounds& bounds, Counts near) {
  std::optional<Counts> best;
  const int first =
      std::clamp(near.pools, bounds.min_pools, std::max(bounds.max_pools, bounds.min_pools));
  SearchPool(wanted, bounds, first, near, best);
  for (int pools = bounds.min_pools; pools <= bounds.max_pools; ++pools) {
    // A pool holds the whole model. If idle pools already cost more than the best, more pools do
    // too.
    const double least = wanted.predictor.CostOf({1, bounds.fewest_n, pools});
    if (best && least > wanted.predictor.CostOf(*best)) break;
    if (pools != first) SearchPool(wanted, bounds, pools, near, best);
  }
  return best;
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
