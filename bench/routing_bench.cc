// With routing of real models, how many experts does the busiest instance read in a step, and what
// does it cost in a large round, by placement and by scheduling? And how long does placing take?
//
// routing_bench [schedule|rows|place|held-out|speed]...

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <tuple>
#include <vector>

#include "bench/sections.h"
#include "cli/place/routing_file.h"
#include "common/aebs.h"
#include "common/check.h"
#include "common/row_split.h"
#include "controllers/replicas/place.h"
#include "tests/support/flow_bounds.h"
#include "tests/support/split_optimum.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

struct DataSet {
  const char* name;
  std::vector<RoutingLayer> place;  // for making placements
  std::vector<RoutingLayer> judge;  // for judging them
};

std::vector<RoutingLayer> Read(const char* folder, int experts) {
  auto read = cli::ReadRouting(std::string(JANUS_SOURCE_DIR "/data/routing/") + folder, experts);
  JANUS_CHECK(read.ok(), read.status().ToString());
  return std::move(read).value();
}

// The first and the second half of the measurement.
std::pair<std::vector<RoutingLayer>, std::vector<RoutingLayer>> Halves(
    const std::vector<RoutingLayer>& all) {
  std::pair<std::vector<RoutingLayer>, std::vector<RoutingLayer>> halves = {all, all};
  for (size_t l = 0; l < all.size(); ++l) {
    const auto middle = all[l].ids.begin() + all[l].tokens() / 2 * all[l].top_k;
    halves.first[l].ids.assign(all[l].ids.begin(), middle);
    halves.second[l].ids.assign(middle, all[l].ids.end());
  }
  return halves;
}

std::vector<DataSet> DataSets() {
  const auto intent = Read("deepseek_v2_lite_intent", 64);
  const auto law = Read("deepseek_v2_lite_law", 64);
  const auto law_halves = Halves(law);
  const auto gptoss_halves = Halves(Read("gptoss20b_decode", 32));
  return {{"law, placed on intent", intent, law},
          {"law, placed on its 1st half", law_halves.first, law_halves.second},
          {"gpt-oss, placed on its 1st half", gptoss_halves.first, gptoss_halves.second}};
}

std::vector<LayerActivations> Sample(const std::vector<RoutingLayer>& layers, int batch, int steps,
                                     uint64_t seed) {
  std::vector<LayerActivations> sampled;
  for (const RoutingLayer& layer : layers) {
    sampled.push_back(SampleActivations(layer, batch, steps, seed++));
  }
  return sampled;
}

std::vector<int> Slots(int experts, int instances, int spare_percent) {
  const int total = experts + experts * spare_percent / 100;
  std::vector<int> slots(static_cast<size_t>(instances), total / instances);
  for (int i = 0; i < total % instances; ++i) ++slots[static_cast<size_t>(i)];
  return slots;
}

struct Scheduled {
  double random = 0, tokens = 0, greedy = 0, exact = 0, random_gap = 0, exact_gap = 0;
};

// Mean over steps and layers of the replicas that the busiest instance activates, under four
// schedulers.
Scheduled Schedule(const Placement& placement, const std::vector<RoutingLayer>& layers, int batch,
                   int steps) {
  Scheduled sum;
  std::mt19937_64 random(11);
  for (size_t l = 0; l < layers.size(); ++l) {
    const RoutingLayer& layer = layers[l];
    const LayerPlacement where = LayerPlacement::Of(placement, static_cast<int>(l), layer.experts);
    AebsWorkspace work(layer.experts, where.instances);
    const auto n = static_cast<size_t>(where.instances);
    for (int s = 0; s < steps; ++s) {
      std::vector<int> rows(static_cast<size_t>(layer.experts));
      std::vector<uint16_t> ids;
      for (int t = 0; t < batch; ++t) {
        const size_t token = random() % static_cast<size_t>(layer.tokens());
        for (int k = 0; k < layer.top_k; ++k) {
          ids.push_back(
              layer.ids[token * static_cast<size_t>(layer.top_k) + static_cast<size_t>(k)]);
          ++rows[ids.back()];
        }
      }
      CollectActivated(ids, layer.experts, work);
      const auto add = [&](std::span<const int32_t> load, double& largest, double* gap) {
        const auto [low, high] = std::ranges::minmax(load);
        largest += high;
        if (gap != nullptr) *gap += high - low;
      };
      std::vector<int32_t> one(n);   // one random replica runs an expert
      std::vector<int32_t> some(n);  // all replicas share an expert's rows
      for (const uint16_t e : work.activated()) {
        const auto begin = static_cast<size_t>(where.first[e]);
        const auto count = static_cast<size_t>(where.first[e + 1]) - begin;
        ++one[where.replicas[begin + random() % count].instance];
        for (size_t r = 0; r < std::min<size_t>(count, static_cast<size_t>(rows[e])); ++r) {
          ++some[where.replicas[begin + r].instance];
        }
      }
      add(one, sum.random, &sum.random_gap);
      add(some, sum.tokens, nullptr);
      AssignGreedy(where, work);
      add(work.load(), sum.greedy, nullptr);
      AssignExact(where, work);
      add(work.load(), sum.exact, &sum.exact_gap);
      const int optimum = FlowOptimum(where, work.activated()).LargestLoad();
      JANUS_CHECK(std::ranges::max(work.load()) == optimum, optimum, s);
    }
  }
  const double samples = static_cast<double>(layers.size()) * steps;
  for (double* v :
       {&sum.random, &sum.tokens, &sum.greedy, &sum.exact, &sum.random_gap, &sum.exact_gap}) {
    *v /= samples;
  }
  return sum;
}

Placement Place(const std::vector<LayerActivations>& layers, const std::vector<int>& slots,
                PlacementMethod method) {
  PlacementOptions options;
  options.method = method;
  auto placed = PlaceByActivation(slots, 0, {}, layers, nullptr, options);
  JANUS_CHECK(placed.ok(), placed.status().ToString());
  return std::move(placed).value();
}

void Schedules() {
  std::printf(
      "Activated replicas of the busiest instance by scheduler, JANUS's placement; gap = busiest - "
      "idlest\n");
  std::printf("%-32s %4s %6s %6s | %7s %7s %7s %7s | %7s %7s\n", "ROUTING", "n", "SPARE", "BATCH",
              "RANDOM", "TOKENS", "GREEDY", "EXACT", "GAP RND", "GAP EX");
  for (const DataSet& data : DataSets()) {
    for (const int n : {8, 16}) {
      for (const int spare : {0, 25, 50}) {
        const auto slots = Slots(data.place[0].experts, n, spare);
        const Placement placement =
            Place(Sample(data.place, 64, 8, 1), slots, PlacementMethod::kCoactivation);
        for (const int batch : {4, 16, 64, 256, 512}) {
          const Scheduled s = Schedule(placement, data.judge, batch, 40);
          std::printf("%-32s %4d %5d%% %6d | %7.2f %7.2f %7.2f %7.2f | %7.2f %7.2f\n", data.name, n,
                      spare, batch, s.random, s.tokens, s.greedy, s.exact, s.random_gap,
                      s.exact_gap);
        }
      }
    }
  }
}

// Cost of a round's busiest instance by MegaScale-Infer's C_j: a share of x rows costs max(x, K).
struct RowCosts {
  double unsplit = 0;  // by activated experts
  double even = 0;     // EPLB: over all replicas evenly
  double split = 0;    // common/row_split.h
  double bound = 0;
  double optimum = 0;  // computed if split is not within 2 % of the bound; negative: not found
};

RowCosts CostsOf(const LayerPlacement& where, std::span<const uint16_t> ids, int crossover) {
  RowSplitWorkspace split(where.experts, where.instances, static_cast<int>(where.replicas.size()));
  AebsWorkspace aebs(where.experts, where.instances);
  CountRows(ids, where.experts, split);
  SplitRows(where, crossover, split);
  CollectActivated(ids, where.experts, aebs);
  AssignExact(where, aebs);
  std::vector<double> unsplit(static_cast<size_t>(where.instances));
  std::vector<double> even(unsplit.size());
  for (const uint16_t e : aebs.activated()) {
    const int rows = split.rows_of_expert()[e];
    unsplit[aebs.replica_of()[e].instance] += std::max(rows, crossover);
    const int replicas = where.first[e + size_t{1}] - where.first[e];
    for (int r = 0; r < std::min(replicas, rows); ++r) {
      const int share = rows / replicas + (r < rows % replicas ? 1 : 0);
      even[where.replicas[static_cast<size_t>(where.first[e] + r)].instance] +=
          std::max(share, crossover);
    }
  }
  RowCosts costs = {std::ranges::max(unsplit), std::ranges::max(even),
                    static_cast<double>(std::ranges::max(split.cost())),
                    RowCostBound(where, split.rows_of_expert(), crossover)};
  costs.optimum = costs.bound;
  if (costs.split > costs.bound * 1.02) {
    costs.optimum =
        SplitOptimum(where, split.rows_of_expert(), crossover).LargestCost(costs.split, 20'000);
  }
  return costs;
}

// Prompts come in order: the rows of a round are neighbours in the measurement. Both tasks of
// DeepSeek-V2-Lite together have enough rows for 16,384.
void Rows() {
  std::printf(
      "What the busiest instance costs in a large round (a share of x rows: max(x, K)) over a "
      "bound "
      "that no split goes below; placed by EPLB on other routing\n");
  std::printf("%-32s %2s %6s %4s %6s %6s | %7s %7s %7s %7s | %s\n", "ROUTING", "n", "SPARE", "K",
              "TOKENS", "ROUNDS", "AEBS", "EPLB", "SPLIT", "WORST",
              "WITHIN 2 %   AND OF THE OPTIMUM");
  std::vector<DataSet> sets = DataSets();
  sets.erase(sets.begin() + 1);
  sets[0].name = "law + intent, placed on intent";
  for (size_t l = 0; l < sets[0].judge.size(); ++l) {
    auto& ids = sets[0].judge[l].ids;
    ids.insert(ids.end(), sets[0].place[l].ids.begin(), sets[0].place[l].ids.end());
  }
  for (const DataSet& data : sets) {
    for (const int n : {8, 16}) {
      for (const int spare : {0, 25, 50}) {
        const Placement placement =
            Place(Sample(data.place, 64, 8, 1), Slots(data.place[0].experts, n, spare),
                  PlacementMethod::kRows);
        for (const int crossover : {16, 64, 245}) {
          for (const size_t tokens : {1024, 4096, 15872}) {
            RowCosts sum;
            double worst = 0;
            int rounds = 0;
            int within = 0;
            int of_optimum = 0;
            int unknown = 0;
            for (size_t l = 0; l < data.judge.size(); l += 3) {
              const RoutingLayer& layer = data.judge[l];
              const auto k = static_cast<size_t>(layer.top_k);
              const LayerPlacement where =
                  LayerPlacement::Of(placement, static_cast<int>(l), layer.experts);
              for (size_t first = 0, i = 0; i < 4 && (first + tokens) * k <= layer.ids.size();
                   ++i, first += tokens) {
                const RowCosts c =
                    CostsOf(where, std::span(layer.ids).subspan(first * k, tokens * k), crossover);
                sum.unsplit += c.unsplit / c.bound;
                sum.even += c.even / c.bound;
                sum.split += c.split / c.bound;
                worst = std::max(worst, c.split / c.bound);
                within += c.split <= c.bound * 1.02 ? 1 : 0;
                of_optimum += c.optimum > 0 && c.split <= c.optimum * 1.02 ? 1 : 0;
                unknown += c.optimum < 0 ? 1 : 0;
                ++rounds;
              }
            }
            std::printf(
                "%-32s %2d %5d%% %4d %6zu %6d | %7.3f %7.3f %7.3f %7.3f | %5.1f %% %5.1f %%%s\n",
                data.name, n, spare, crossover, tokens, rounds, sum.unsplit / rounds,
                sum.even / rounds, sum.split / rounds, worst, 100.0 * within / rounds,
                100.0 * of_optimum / rounds, unknown > 0 ? " (or not known)" : "");
            std::fflush(stdout);
          }
        }
      }
    }
  }
}

void Placements() {
  std::printf("Activated experts of the busiest instance by placement, AEBS in its exact form\n");
  std::printf("%-32s %4s %6s %6s | %7s %7s %7s %7s\n", "ROUTING", "n", "SPARE", "BATCH", "ROUND",
              "EPLB", "ALG 2", "SEARCH");
  for (const DataSet& data : DataSets()) {
    for (const int n : {8, 16}) {
      for (const int spare : {0, 25, 50}) {
        const auto slots = Slots(data.place[0].experts, n, spare);
        for (const int batch : {16, 64, 256}) {
          const auto sampled = Sample(data.place, batch, 24, 1);
          double largest[4];
          for (const PlacementMethod method :
               {PlacementMethod::kRoundRobin, PlacementMethod::kRows,
                PlacementMethod::kCoactivation, PlacementMethod::kSearch}) {
            largest[static_cast<int>(method)] =
                Schedule(Place(sampled, slots, method), data.judge, batch, 40).exact;
          }
          std::printf("%-32s %4d %5d%% %6d | %7.2f %7.2f %7.2f %7.2f\n", data.name, n, spare, batch,
                      largest[0], largest[1], largest[2], largest[3]);
          std::fflush(stdout);
        }
      }
    }
  }
}

// Judges a placement made from the first half of each measurement on the second half, under both
// schedulers, and compares with dealing experts in turn. A step has tokens that follow each other.
void HeldOut() {
  std::printf(
      "Activated experts of the busiest instance on tokens not placed from: over dealing in "
      "turn\n%-10s %-10s %4s %6s | %s\n",
      "ROUTING", "SCHEDULING", "n", "SPARE", "BATCH 16, 64, 128, 256, 512");
  double worst = 0;
  double sum = 0;
  double best = 2;
  int cells = 0;
  for (const auto& [name, folder, experts] : {std::tuple("intent", "deepseek_v2_lite_intent", 64),
                                              {"law", "deepseek_v2_lite_law", 64},
                                              {"gpt-oss", "gptoss20b_decode", 32}}) {
    const auto [seen, unseen] = Halves(Read(folder, experts));
    for (const SchedulingPolicy scheduling :
         {SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy}) {
      for (const int n : {4, 8, 16}) {
        for (const int spare : {0, 25, 50}) {
          const auto slots = Slots(experts, n, spare);
          std::printf("%-10s %-10s %4d %5d%% |", name,
                      scheduling == SchedulingPolicy::kAebs ? "exact" : "greedy", n, spare);
          for (const int batch : {16, 64, 128, 256, 512}) {
            const auto sampled = Sample(seen, batch, 24, 1);
            double of[2] = {0, 0};
            for (const PlacementMethod method :
                 {PlacementMethod::kRoundRobin, PlacementMethod::kSearch}) {
              PlacementOptions options;
              options.method = method;
              options.scheduling = scheduling;
              const auto placed = PlaceByActivation(slots, 0, {}, sampled, nullptr, options);
              JANUS_CHECK(placed.ok(), placed.status().ToString());
              for (size_t l = 0; l < unseen.size(); ++l) {
                const auto steps = ContiguousSteps(unseen[l], batch, 40);
                const ReplicaRoom room = {experts, slots, {}};
                LayoutJudge judge(room, steps, scheduling);
                of[method == PlacementMethod::kSearch ? 1 : 0] +=
                    judge.Judge(LayoutOf(*placed, static_cast<int>(l))).largest;
              }
            }
            const double ratio = of[1] / of[0];
            worst = std::max(worst, ratio);
            best = std::min(best, ratio);
            sum += ratio;
            ++cells;
            std::printf(" %.4f", ratio);
          }
          std::printf("\n");
          std::fflush(stdout);
        }
      }
    }
  }
  std::printf("of %d: worst %.4f (goal: at most 1.005), mean %.4f, best %.4f\n", cells, worst,
              sum / cells, best);
}

// DeepSeek-V3's size. No routing of it has been published, so this one is random: popularity falls
// as a power of the rank.
void Speed() {
  constexpr int kLayers = 61;
  std::mt19937_64 random(5);
  std::vector<RoutingLayer> layers(kLayers, RoutingLayer{256, 8, {}});
  for (RoutingLayer& layer : layers) {
    std::vector<double> weight;
    for (int e = 0; e < 256; ++e) weight.push_back(1.0 / (4 + static_cast<double>(random() % 256)));
    std::discrete_distribution<int> draw(weight.begin(), weight.end());
    for (int t = 0; t < 2048; ++t) {
      std::vector<uint16_t> ids;
      while (ids.size() < 8) {
        const auto e = static_cast<uint16_t>(draw(random));
        if (std::ranges::find(ids, e) == ids.end()) ids.push_back(e);
      }
      layer.ids.insert(layer.ids.end(), ids.begin(), ids.end());
    }
  }
  const auto slots = Slots(256, 32, 25);
  const auto judged = Sample(layers, 64, 16, 9);
  for (const auto& [name, method] : {std::pair("EPLB", PlacementMethod::kRows),
                                     std::pair("Algorithm 2", PlacementMethod::kCoactivation),
                                     std::pair("search", PlacementMethod::kSearch)}) {
    const std::clock_t begin = std::clock();
    const auto sampled = Sample(layers, 64, 16, 1);
    const Placement placed = Place(sampled, slots, method);
    const double seconds =
        static_cast<double>(std::clock() - begin) / static_cast<double>(CLOCKS_PER_SEC);
    std::printf(
        "61 layers x 256 experts x 32 instances, 25 %% spare, %s: %.2f s of CPU time, busiest "
        "%.2f\n",
        name, seconds, Schedule(placed, layers, 64, 16).exact);
  }
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus::bench;  // NOLINT: main
  return PrintSections(
      "routing_bench", {argv + 1, argv + argc},
      {Sound("schedule", Schedules), Sound("rows", Rows), Sound("place", Placements),
       Sound("held-out", HeldOut), Sound("speed", Speed)});
}
