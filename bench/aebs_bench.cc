// How long does one AEBS call take on one thread? T tokens of k of E experts on n instances with
// 1.5x slots, the whole call: collecting, assigning, remapping. Rounds differ from call to call.
//
// aebs_bench [rounds]

#include <cstdlib>
#include <random>
#include <vector>

#include "bench/measure.h"
#include "common/aebs.h"
#include "common/check.h"

namespace janus::bench {
namespace {

struct Shape {
  int tokens;
  int top_k;
  int experts;
  int instances;
};

// Experts dealt in turn, as many again as fit 1.5x slots, the second ones shifted by a random
// amount so that pairs of experts do not share both instances.
Placement Place(const Shape& shape, std::mt19937_64& random) {
  const auto n = static_cast<size_t>(shape.instances);
  std::vector<std::vector<uint16_t>> of(n);
  for (int s = 0; s < shape.experts * 3 / 2; ++s) {
    const auto e = static_cast<uint16_t>(s % shape.experts);
    size_t g = s < shape.experts ? static_cast<size_t>(s) % n : random() % n;
    while (std::ranges::find(of[g], e) != of[g].end()) g = (g + 1) % n;
    of[g].push_back(e);
  }
  Placement placement;
  placement.layers = 1;
  for (const auto& list : of) {
    placement.slots_of_instance.push_back(static_cast<int>(list.size()));
    placement.expert_of.insert(placement.expert_of.end(), list.begin(), list.end());
  }
  return placement;
}

// Distinct experts per token. Skewed: some experts are much likelier than others, as in real
// models.
std::vector<uint16_t> Route(const Shape& shape, bool skewed, std::mt19937_64& random) {
  std::vector<double> popularity(static_cast<size_t>(shape.experts), 1.0);
  if (skewed) {
    std::lognormal_distribution<double> wide(0.0, 1.5);
    for (double& p : popularity) p = wide(random);
  }
  std::discrete_distribution<int> draw(popularity.begin(), popularity.end());
  std::vector<uint16_t> ids;
  for (int t = 0; t < shape.tokens; ++t) {
    const size_t first = ids.size();
    while (ids.size() < first + static_cast<size_t>(shape.top_k)) {
      const auto id = static_cast<uint16_t>(draw(random));
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::find(begin, ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

void Run(const Shape& shape, bool skewed, int rounds) {
  std::mt19937_64 random(42);
  const LayerPlacement layer = LayerPlacement::Of(Place(shape, random), 0, shape.experts);
  std::vector<std::vector<uint16_t>> batches;
  for (int i = 0; i < 64; ++i) batches.push_back(Route(shape, skewed, random));
  AebsWorkspace work(shape.experts, shape.instances);
  std::vector<Replica> replicas(batches[0].size());
  for (const auto policy : {SchedulingPolicy::kAebsGreedy, SchedulingPolicy::kAebs}) {
    double activated = 0.0;
    double largest = 0.0;
    for (const auto& ids : batches) {
      ScheduleActivatedExperts(policy, layer, ids, work, replicas);
      activated += static_cast<double>(work.activated().size()) / 64.0;
      largest += *std::ranges::max_element(work.load()) / 64.0;
    }
    const Spread spread = Measure(rounds, 0.2, [&](int64_t i) {
      ScheduleActivatedExperts(policy, layer, batches[static_cast<size_t>(i) % 64], work, replicas);
    });
    JsonLine("aebs")
        .Text("policy", ToString(policy))
        .Text("routing", skewed ? "skewed" : "uniform")
        .Int("tokens", shape.tokens)
        .Int("top_k", shape.top_k)
        .Int("experts", shape.experts)
        .Int("instances", shape.instances)
        .Number("mean_activated", activated)
        .Number("mean_largest_load", largest)
        .Microseconds(spread)
        .Number("p99_us", spread.p99 * 1e6);
  }
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using janus::bench::Run;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20000;
  Run({512, 8, 256, 16}, false, rounds);
  Run({512, 8, 256, 16}, true, rounds);
  Run({64, 8, 256, 16}, true, rounds);
  Run({64, 2, 8, 6}, false, rounds);
  Run({512, 8, 256, 64}, true, rounds);
}
