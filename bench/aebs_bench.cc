// How long does scheduling one round take on one thread? T tokens choose k of E experts on n
// instances with 1.5x slots. The time covers the whole call: collecting, assigning, remapping.
// Scheduling is by activated experts and, in large rounds, by rows. Every call gets a different
// round. Times are CPU time of the thread, which excludes other work on the machine but includes
// 0.3 us for reading the clock.
//
// aebs_bench [rounds]

#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "bench/flags.h"
#include "bench/measure.h"
#include "common/aebs.h"
#include "common/check.h"
#include "common/row_split.h"

namespace janus::bench {
namespace {

struct Shape {
  int tokens;
  int top_k;
  int experts;
  int instances;
};

// Deals experts in turn, then second replicas up to 1.5x slots. The second replicas are shifted by
// a random amount, so that two experts rarely share both instances.
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

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Rounds {
  Shape shape;
  const char* routing;
  LayerPlacement layer;
  std::vector<std::vector<uint16_t>> batches;
};

Rounds Draw(const Shape& shape, bool skewed) {
  std::mt19937_64 random(42);
  Rounds rounds{shape,
                skewed ? "skewed" : "uniform",
                LayerPlacement::Of(Place(shape, random), 0, shape.experts),
                {}};
  for (int i = 0; i < 64; ++i) rounds.batches.push_back(Route(shape, skewed, random));
  return rounds;
}

// Times `schedule(ids)` and adds the fields that every line has.
template <class Schedule>
void Time(const Rounds& rounds, int repeats, Schedule&& schedule, JsonLine& line) {
  const double before = ThreadSeconds();
  int64_t calls = 0;
  const Spread spread = Measure(repeats, 0.2, [&](int64_t i) {
    schedule(rounds.batches[static_cast<size_t>(i) % rounds.batches.size()]);
    ++calls;
  });
  const double cpu = (ThreadSeconds() - before) / static_cast<double>(calls);
  line.Text("routing", rounds.routing)
      .Int("tokens", rounds.shape.tokens)
      .Int("top_k", rounds.shape.top_k)
      .Int("experts", rounds.shape.experts)
      .Int("instances", rounds.shape.instances)
      .Microseconds(spread)
      .Number("p99_us", spread.p99 * 1e6)
      .Number("cpu_us", cpu * 1e6);
}

void Run(const Shape& shape, bool skewed, int repeats) {
  const Rounds rounds = Draw(shape, skewed);
  AebsWorkspace work(shape.experts, shape.instances);
  std::vector<Replica> replicas(rounds.batches[0].size());
  for (const auto policy : {SchedulingPolicy::kAebsGreedy, SchedulingPolicy::kAebs}) {
    const auto schedule = [&](const std::vector<uint16_t>& ids) {
      ScheduleActivatedExperts(policy, rounds.layer, ids, work, replicas);
    };
    double activated = 0.0;
    double largest = 0.0;
    for (const auto& ids : rounds.batches) {
      schedule(ids);
      activated += static_cast<double>(work.activated().size()) / 64.0;
      largest += *std::ranges::max_element(work.load()) / 64.0;
    }
    JsonLine line("aebs");
    line.Text("policy", ToString(policy));
    Time(rounds, repeats, schedule, line);
    line.Number("mean_activated", activated).Number("mean_largest_load", largest);
  }
}

// `crossover`: K of docs/aebs.md.
void RunRows(const Shape& shape, int crossover, int repeats) {
  const Rounds rounds = Draw(shape, true);
  AebsWorkspace aebs(shape.experts, shape.instances);
  RowSplitWorkspace split(shape.experts, shape.instances,
                          static_cast<int>(rounds.layer.replicas.size()));
  std::vector<Replica> replicas(rounds.batches[0].size());
  const auto schedule = [&](const std::vector<uint16_t>& ids) {
    return ScheduleRound(SchedulingPolicy::kAebs, crossover, rounds.layer, ids, shape.top_k, aebs,
                         split, replicas);
  };
  double busiest = 0.0;
  double even = 0.0;
  int by_rows = 0;
  for (const auto& ids : rounds.batches) {
    if (schedule(ids) == Regime::kActivatedExperts) continue;
    ++by_rows;
    double total = 0;
    for (const int64_t cost : split.cost()) total += static_cast<double>(cost);
    busiest += static_cast<double>(*std::ranges::max_element(split.cost()));
    even += total / shape.instances;
  }
  JsonLine line("row_split");
  Time(rounds, repeats, schedule, line);
  line.Int("crossover", crossover)
      .Int("rounds_by_rows_of_64", by_rows)
      .Number("busiest_over_mean", by_rows == 0 ? 0.0 : busiest / even);
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using janus::bench::Run;
  int rounds = 20000;
  if (!janus::bench::TakeRounds("aebs_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  Run({512, 8, 256, 16}, false, rounds);
  Run({512, 8, 256, 16}, true, rounds);
  Run({64, 8, 256, 16}, true, rounds);
  Run({64, 2, 8, 6}, false, rounds);
  Run({512, 8, 256, 64}, true, rounds);
  const int large = std::max(1, rounds / 20);
  for (const int crossover : {16, 64, 245}) {
    janus::bench::RunRows({4096, 8, 256, 16}, crossover, large);
  }
  janus::bench::RunRows({16384, 8, 256, 16}, 245, large);
  janus::bench::RunRows({4096, 8, 256, 64}, 64, large);
  janus::bench::RunRows({4096, 6, 64, 8}, 245, large);
}
