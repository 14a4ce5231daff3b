#include "controllers/replicas/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "controllers/placement.h"
#include "tests/support/layer_rounds.h"
#include "tests/support/paths.h"

namespace janus::controllers {
namespace {

// Skewed routing: expert e is chosen with weight 1/(1+e), pairs (2i, 2i+1) often together.
RoutingLayer Skewed(int experts, int top_k, int tokens, uint64_t seed) {
  std::mt19937_64 random(seed);
  RoutingLayer layer = {experts, top_k, {}};
  for (int t = 0; t < tokens; ++t) {
    std::set<uint16_t> chosen;
    while (static_cast<int>(chosen.size()) < top_k) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      const auto e = static_cast<uint16_t>(static_cast<double>(experts) * u * u);
      chosen.insert(e);
      if (static_cast<int>(chosen.size()) < top_k && random() % 2 == 0 && (e ^ 1) < experts) {
        chosen.insert(static_cast<uint16_t>(e ^ 1));
      }
    }
    layer.ids.insert(layer.ids.end(), chosen.begin(), chosen.end());
  }
  return layer;
}

std::vector<LayerActivations> Layers(int layers, int experts, int batch, uint64_t seed = 1) {
  std::vector<LayerActivations> result;
  for (int l = 0; l < layers; ++l) {
    result.push_back(SampleActivations(Skewed(experts, 4, 600, seed + static_cast<uint64_t>(l)),
                                       batch, 16, seed));
  }
  return result;
}

double Largest(const Placement& placement, std::span<const LayerActivations> layers) {
  double sum = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    const ReplicaRoom room = {layers[l].experts, placement.slots_of_instance, {}};
    LayoutJudge judge(room, layers[l].steps);
    sum += judge.Judge(LayoutOf(placement, static_cast<int>(l))).largest;
  }
  return sum / static_cast<double>(layers.size());
}

TEST(ReplicateByRows, GivesTheNextReplicaToTheMostRowsPerReplica) {
  const ReplicaRoom room = {3, {2, 2, 2}, {}};
  // 90 -> 45 -> 30; 40, 20: the third spare slot goes to expert 1 (40 > 30).
  EXPECT_EQ(ReplicateByRows(room, std::vector<double>{90, 40, 20}), (std::vector<int>{3, 2, 1}));
}

TEST(ReplicateByRows, NeverGivesMoreReplicasThanInstances) {
  const ReplicaRoom room = {2, {2, 2}, {}};
  EXPECT_EQ(ReplicateByRows(room, std::vector<double>{1000, 1}), (std::vector<int>{2, 2}));
}

TEST(ReplicateByRows, UnusedExpertsKeepOneAndTiesGoToTheLowestId) {
  const ReplicaRoom room = {4, {3, 3}, {}};
  EXPECT_EQ(ReplicateByRows(room, std::vector<double>{5, 0, 5, 0}), (std::vector<int>{2, 1, 2, 1}));
}

// Worked by hand in docs/placement.md.
TEST(PlaceByCoactivation, SpreadsWhatIsChosenTogether) {
  const ReplicaRoom room = {4, {2, 2}, {}};
  LayerActivations a;
  a.experts = 4;
  a.rows = {10, 9, 8, 7};
  a.together.assign(16, 0);
  const auto pair = [&](size_t i, size_t j, float n) {
    a.together[i * 4 + j] = a.together[j * 4 + i] = n;
  };
  pair(0, 1, 6);
  pair(2, 3, 5);
  pair(0, 2, 1);
  const Layout layout = PlaceByCoactivation(room, a, std::vector<int>{1, 1, 1, 1});
  // 0 goes to the first instance. 1 costs 6 there, 0 on the second. 2 costs 1 and 0: the second. 3
  // takes the free slot.
  EXPECT_EQ(layout, (Layout{{0, 3}, {1, 2}}));
}

TEST(PlaceByCoactivation, SwapsWhenOnlyInstancesThatHoldTheExpertHaveRoom) {
  // Expert 0 goes to instances 0 and 1 first. Others then take the last room of instance 1, which
  // expert 2 would need.
  const ReplicaRoom room = {3, {1, 3}, {}};
  LayerActivations a;
  a.experts = 3;
  a.rows = {1, 10, 9};
  a.together.assign(9, 0);
  a.together[1 * 3 + 2] = a.together[2 * 3 + 1] = 5;
  const Layout layout = PlaceByCoactivation(room, a, std::vector<int>{2, 1, 1});
  int replicas_of_0 = 0;
  for (const auto& held : layout) replicas_of_0 += static_cast<int>(std::ranges::count(held, 0));
  EXPECT_EQ(replicas_of_0, 2);
  EXPECT_EQ(layout[0].size(), 1u);
  EXPECT_EQ(layout[1].size(), 3u);
}

struct Shape {
  const char* name;
  std::vector<int> slots;
  int spare;
  std::vector<int> pods;
};
void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.name;
}

std::string NameOfCase(const testing::TestParamInfo<std::tuple<PlacementMethod, Shape>>& info) {
  static const std::array<const char*, 4> names = {"RoundRobin", "Rows", "Coactivation", "Search"};
  return std::string(names[static_cast<size_t>(std::get<0>(info.param))]) + "_" +
         std::get<1>(info.param).name;
}

class EveryMethod : public testing::TestWithParam<std::tuple<PlacementMethod, Shape>> {};

TEST_P(EveryMethod, MakesAValidPlacement) {
  const auto& [method, shape] = GetParam();
  const auto layers = Layers(2, 24, 12);
  PlacementOptions options;
  options.method = method;
  options.evaluations = 200;
  const auto placed =
      PlaceByActivation(shape.slots, shape.spare, shape.pods, layers, nullptr, options);
  ASSERT_TRUE(placed.ok()) << placed.status().ToString();
  const Status valid = Validate(*placed, 2, 24);
  EXPECT_TRUE(valid.ok()) << valid.ToString();
  int first = 0;
  for (size_t g = 0; g < shape.slots.size(); ++g) {
    for (int s = 0; s < shape.slots[g] - shape.spare; ++s) {
      EXPECT_NE(placed->at(0, first + s), Placement::kEmpty) << "wasted slot of instance " << g;
    }
    for (int s = shape.slots[g] - shape.spare; s < shape.slots[g]; ++s) {
      EXPECT_EQ(placed->at(0, first + s), Placement::kEmpty) << "spare slot of instance " << g;
    }
    first += shape.slots[g];
  }
  // A second call gives the same bits.
  EXPECT_EQ(*placed,
            *PlaceByActivation(shape.slots, shape.spare, shape.pods, layers, nullptr, options));
}

TEST_P(EveryMethod, PutsReplicasInDifferentPodsFirst) {
  const auto& [method, shape] = GetParam();
  if (shape.pods.empty() || method == PlacementMethod::kRoundRobin) return;
  const auto layers = Layers(1, 24, 12);
  PlacementOptions options;
  options.method = method;
  options.evaluations = 300;
  const Placement placed =
      *PlaceByActivation(shape.slots, shape.spare, shape.pods, layers, nullptr, options);
  const Layout layout = LayoutOf(placed, 0);
  const int pods = 1 + *std::ranges::max_element(shape.pods);
  for (uint16_t e = 0; e < 24; ++e) {
    std::set<int> in;
    int replicas = 0;
    for (size_t g = 0; g < layout.size(); ++g) {
      if (std::ranges::count(layout[g], e) == 0) continue;
      ++replicas;
      in.insert(shape.pods[g]);
    }
    EXPECT_EQ(static_cast<int>(in.size()), std::min(replicas, pods)) << "expert " << e;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryMethod,
    testing::Combine(testing::Values(PlacementMethod::kRoundRobin, PlacementMethod::kRows,
                                     PlacementMethod::kCoactivation, PlacementMethod::kSearch),
                     testing::Values(Shape{"even", {8, 8, 8, 8}, 0, {}},
                                     Shape{"spare", {10, 10, 10, 10}, 2, {}},
                                     Shape{"uneven", {4, 12, 7, 9}, 0, {}},
                                     Shape{"pods", {8, 8, 8, 8, 8, 8}, 0, {0, 0, 1, 1, 2, 2}},
                                     Shape{"exact", {6, 6, 6, 6}, 0, {}})),
    NameOfCase);

TEST(Search, IsNeverWorseThanWhatItBeginsWith) {
  for (const int batch : {4, 12, 40}) {
    const auto layers = Layers(2, 24, batch);
    const std::vector<int> slots(5, 7);
    PlacementOptions options;
    options.movement_weight = 0;
    options.is_judged = false;
    const auto with = [&](PlacementMethod method) {
      options.method = method;
      return Largest(*PlaceByActivation(slots, 0, {}, layers, nullptr, options), layers);
    };
    const double searched = with(PlacementMethod::kSearch);
    EXPECT_LE(searched, with(PlacementMethod::kRows) + 0.02) << batch;
    EXPECT_LE(searched, with(PlacementMethod::kCoactivation) + 0.02) << batch;
    EXPECT_LE(searched, with(PlacementMethod::kRoundRobin) + 0.02) << batch;
  }
}

// A search that fits the first half of a measurement but loses on the second is not used.
TEST(Search, IsTakenOnlyWhereStepsThatItHasNotSeenShowAGain) {
  const std::vector<int> slots(5, 7);
  // The halves have different routing: they use different experts.
  LayerActivations layer = SampleActivations(Skewed(24, 4, 600, 3), 6, 24, 3);
  for (size_t s = 16; s < layer.steps.size(); ++s) {
    for (uint16_t& e : layer.steps[s]) e = static_cast<uint16_t>(23 - e);
    std::ranges::reverse(layer.steps[s]);
  }
  const std::span<const LayerActivations> layers(&layer, 1);
  PlacementOptions options;
  const Placement judged = *PlaceByActivation(slots, 0, {}, layers, nullptr, options);
  options.is_judged = false;
  const Placement fitted = *PlaceByActivation(slots, 0, {}, layers, nullptr, options);
  options.method = PlacementMethod::kRoundRobin;
  const Placement dealt = *PlaceByActivation(slots, 0, {}, layers, nullptr, options);
  EXPECT_EQ(judged, dealt);
  EXPECT_NE(fitted, dealt);
}

// The search makes no step: its start is better than any other method, in a case in which replicas
// by activation beat replicas by rows and dealing in turn.
TEST(Search, BeginsAlsoWithReplicasByActivation) {
  const std::vector<int> slots(5, 7);
  PlacementOptions options;
  options.evaluations = 0;
  options.is_judged = false;
  int better = 0;
  for (const LayerActivations& layer : Layers(12, 24, 6)) {
    const auto with = [&](PlacementMethod method) {
      options.method = method;
      return Largest(*PlaceByActivation(slots, 0, {}, {&layer, 1}, nullptr, options), {&layer, 1});
    };
    const double others =
        std::min({with(PlacementMethod::kRoundRobin), with(PlacementMethod::kRows),
                  with(PlacementMethod::kCoactivation)});
    better += with(PlacementMethod::kSearch) < others ? 1 : 0;
  }
  EXPECT_GT(better, 0);
}

// Placed on the first half of a measurement, judged on the second. 50 % more slots than experts.
TEST(Search, GainsOnRoutingThatItHasNotSeen) {
  const RoutedTokens tokens =
      ReadRoutingExcerpt(test::SourceDir() + "/data/routing/deepseek_v2_lite_law.csv");
  const size_t half = tokens.size() / 2;
  constexpr int kBatch = 12;
  std::vector<LayerActivations> seen;
  std::vector<LayerActivations> unseen;
  for (size_t l = 0; l < tokens[0].size(); ++l) {
    const auto top_k = static_cast<int>(tokens[0][l].size());
    const RoutingLayer first = {64, top_k, IdsOf(tokens, l, 0, half)};
    const RoutingLayer second = {64, top_k, IdsOf(tokens, l, half, half)};
    seen.push_back(SampleActivations(first, kBatch, 24, 1));
    unseen.push_back(SampleActivations(second, kBatch, 60, 2));
  }
  const std::vector<int> slots(16, 6);
  PlacementOptions options;
  const auto judged = [&](PlacementMethod method) {
    options.method = method;
    return Largest(*PlaceByActivation(slots, 0, {}, seen, nullptr, options), unseen);
  };
  const double searched = judged(PlacementMethod::kSearch);
  EXPECT_LT(searched, judged(PlacementMethod::kRows) * 0.98);
  EXPECT_LT(searched, judged(PlacementMethod::kCoactivation) * 0.98);
  EXPECT_LT(searched, judged(PlacementMethod::kRoundRobin) * 0.98);
}

TEST(Search, AnUnchangedWorldMovesNothing) {
  const auto layers = Layers(2, 24, 12);
  const std::vector<int> slots(5, 7);
  PlacementOptions options;
  options.movement_weight = 0.05;
  Placement now = *PlaceByActivation(slots, 0, {}, layers, nullptr, options);
  // Climbs until no single move is worth its cost, then stays.
  for (int i = 0; i < 6; ++i) now = *PlaceByActivation(slots, 0, {}, layers, &now, options);
  const Placement again = *PlaceByActivation(slots, 0, {}, layers, &now, options);
  EXPECT_EQ(ReplicasToLoad(now, again), 0);
}

TEST(Search, MovesLessWhenMovingCostsMore) {
  const auto before = Layers(2, 24, 12, 1);
  const auto after = Layers(2, 24, 12, 77);
  const std::vector<int> slots(5, 7);
  PlacementOptions options;
  options.is_judged = false;
  const Placement now = *PlaceByActivation(slots, 0, {}, before, nullptr, options);
  const auto moved = [&](double weight) {
    options.movement_weight = weight;
    return ReplicasToLoad(now, *PlaceByActivation(slots, 0, {}, after, &now, options));
  };
  EXPECT_EQ(moved(1e6), 0);
  EXPECT_LE(moved(0.1), moved(0));
  EXPECT_GT(moved(0), 0);
}

TEST(Placement, AReplicaThatStaysKeepsItsSlot) {
  const auto layers = Layers(1, 24, 12, 77);
  const std::vector<int> slots(5, 7);
  const Placement now = *PlaceRoundRobin({1, 24, slots, 0});
  const Placement next = *PlaceByActivation(slots, 0, {}, layers, &now, {});
  int kept = 0;
  for (int g = 0; g < 5; ++g) {
    for (int s = 7 * g; s < 7 * (g + 1); ++s) {
      const uint16_t had = now.at(0, s);
      const Layout layout = LayoutOf(next, 0);
      if (had == Placement::kEmpty) continue;
      if (std::ranges::count(layout[static_cast<size_t>(g)], had) == 0) continue;
      EXPECT_EQ(next.at(0, s), had) << "slot " << s;
      ++kept;
    }
  }
  EXPECT_GT(kept, 0);
}

TEST(Placement, SaysWhySurvivalIsNotPossible) {
  const auto layers = Layers(1, 24, 12);
  PlacementOptions options;
  options.survivable = true;
  const auto placed = PlaceByActivation({8, 8, 8, 8}, 0, {0, 0, 1, 1}, layers, nullptr, options);
  EXPECT_EQ(placed.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(placed.status().message(),
            "placement: not survivable: without the largest pod 16 slots are left for 24 experts; "
            "add expert instances, slots, or smaller pods");
  EXPECT_TRUE(PlaceByActivation({8, 8, 8, 8}, 0, {}, layers, nullptr, options).ok());
}

TEST(Placement, RefusesWhatCannotBe) {
  const auto layers = Layers(1, 24, 12);
  EXPECT_FALSE(PlaceByActivation({8, 8}, 0, {}, layers, nullptr, {}).ok()) << "too few slots";
  EXPECT_FALSE(PlaceByActivation({24}, 0, {}, {}, nullptr, {}).ok()) << "no layers";
  EXPECT_FALSE(PlaceByActivation({12, 12}, 0, {0}, layers, nullptr, {}).ok()) << "pods";
  std::vector<LayerActivations> mixed = {layers[0], Layers(1, 16, 12)[0]};
  EXPECT_FALSE(PlaceByActivation({24}, 0, {}, mixed, nullptr, {}).ok()) << "layers differ";
}

TEST(LayoutJudge, CountsWhatTheBusiestInstanceReads) {
  const ReplicaRoom room = {4, {2, 2}, {}};
  const std::vector<std::vector<uint16_t>> steps = {{0, 1}, {0, 2}};
  LayoutJudge judge(room, steps);
  const LayoutValue value = judge.Judge({{0, 1}, {2, 3}});
  EXPECT_EQ(value.largest, 1.5);
  EXPECT_EQ(value.gap, 1);
  EXPECT_EQ(value.squares, 3);
  EXPECT_EQ(std::vector<int>(judge.busiest_steps().begin(), judge.busiest_steps().end()),
            (std::vector<int>{2, 1}));
  EXPECT_EQ(judge.Judge({{0, 1}, {2, 3}}, 1.4).largest, std::numeric_limits<double>::infinity());
  EXPECT_EQ(judge.Judge({{0, 3}, {1, 2}}, 1.4).largest, 1);
}

}  // namespace
}  // namespace janus::controllers
