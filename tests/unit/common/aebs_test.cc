#include "common/aebs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "tests/support/flow_bounds.h"
#include "tests/support/layer_rounds.h"
#include "tests/support/paths.h"
#include "tests/support/random.h"

namespace janus {
namespace {

// The loads, descending, of a lexicographically least assignment, found by trying all.
std::vector<int> LexicographicOptimum(const LayerPlacement& placement,
                                      std::span<const uint16_t> activated) {
  std::vector<int> best;
  std::vector<int> load(static_cast<size_t>(placement.instances));
  const auto visit = [&](const auto& self, size_t i) -> void {
    if (i == activated.size()) {
      std::vector<int> sorted = load;
      std::ranges::sort(sorted, std::greater<>());
      if (best.empty() || sorted < best) best = sorted;
      return;
    }
    const uint16_t e = activated[i];
    for (int r = placement.first[e]; r < placement.first[e + 1]; ++r) {
      const size_t g = placement.replicas[static_cast<size_t>(r)].instance;
      ++load[g];
      self(self, i + 1);
      --load[g];
    }
  };
  visit(visit, 0);
  return best;
}

int LargestLoad(const AebsWorkspace& work) {
  return work.load().empty() ? 0 : *std::ranges::max_element(work.load());
}

// Properties of every answer, for each policy.
void ExpectSound(const Placement& placement, const LayerPlacement& layer,
                 std::span<const uint16_t> ids, std::span<const Replica> replicas,
                 const AebsWorkspace& work) {
  std::vector<int32_t> load(static_cast<size_t>(layer.instances));
  for (const uint16_t e : work.activated()) ++load[work.replica_of()[e].instance];
  EXPECT_EQ(std::vector<int32_t>(work.load().begin(), work.load().end()), load);
  for (size_t i = 0; i < ids.size(); ++i) {
    const Replica& r = replicas[i];
    ASSERT_LT(r.instance, layer.instances);
    ASSERT_LT(r.slot, placement.slots_of_instance[r.instance]);
    ASSERT_EQ(placement.at(0, placement.first_slot(Rank{r.instance}) + r.slot), ids[i]);
    ASSERT_EQ(r, work.replica_of()[ids[i]]);
  }
}

TEST(LayerPlacement, ListsReplicasByInstanceAndExpertsByReplicas) {
  const Placement placement = OneLayer({{2, 0, Placement::kEmpty}, {0, 1}, {2, 0}});
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, 3);
  EXPECT_EQ(layer.first, (std::vector<int32_t>{0, 3, 4, 6}));
  EXPECT_EQ(layer.replicas, (std::vector<Replica>{{0, 1}, {1, 0}, {2, 1}, {1, 1}, {0, 0}, {2, 0}}));
  EXPECT_EQ(layer.hosts, (std::vector<uint64_t>{0b111, 0b010, 0b101}));
  EXPECT_EQ(layer.by_replicas, (std::vector<uint16_t>{1, 2, 0}));
}

TEST(Aebs, CollectsDistinctIdsAscending) {
  AebsWorkspace work(8, 1);
  CollectActivated(std::vector<uint16_t>{5, 0, 5, 7, 0}, 8, work);
  EXPECT_EQ(std::vector<uint16_t>(work.activated().begin(), work.activated().end()),
            (std::vector<uint16_t>{0, 5, 7}));
}

TEST(Aebs, GreedyTakesSinglesFirstThenTheLeastLoadedThenTheLowestRank) {
  // Expert 3 only on instance 0; 0 and 1 on both; 2 on both.
  const Placement placement = OneLayer({{0, 1, 2, 3}, {0, 1, 2}});
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, 4);
  AebsWorkspace work(4, 2);
  const std::vector<uint16_t> ids = {2, 1, 0, 3};
  std::vector<Replica> replicas(ids.size());
  ScheduleActivatedExperts(SchedulingPolicy::kAebsGreedy, layer, ids, work, replicas);
  // 3 -> 0; then 0 -> 1 (load 0 < 1); 1 -> 0 (1 = 1, lowest rank); 2 -> 1.
  EXPECT_EQ(replicas, (std::vector<Replica>{{1, 2}, {0, 1}, {1, 0}, {0, 3}}));
}

std::vector<int32_t> LoadsOf(SchedulingPolicy policy, const Placement& placement, int experts) {
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, experts);
  AebsWorkspace work(experts, layer.instances);
  std::vector<uint16_t> ids(static_cast<size_t>(experts));
  std::iota(ids.begin(), ids.end(), uint16_t{0});
  std::vector<Replica> replicas(ids.size());
  ScheduleActivatedExperts(policy, layer, ids, work, replicas);
  ExpectSound(placement, layer, ids, replicas, work);
  return {work.load().begin(), work.load().end()};
}

TEST(Aebs, ExactMovesAnExpertThatGreedyPlacedTooEarly) {
  // 0 -> instance 0 and 1 -> instance 2, the lowest ranks. Then 2 finds both taken, although
  // instance 1 is idle.
  const Placement placement = OneLayer({{0, 2}, {0}, {1, 2}, {1}});
  EXPECT_EQ(LoadsOf(SchedulingPolicy::kAebsGreedy, placement, 3),
            (std::vector<int32_t>{2, 0, 1, 0}));
  EXPECT_EQ(LoadsOf(SchedulingPolicy::kAebs, placement, 3), (std::vector<int32_t>{1, 1, 1, 0}));
}

TEST(Aebs, ExactFollowsAPathOfTwoHops) {
  // 0 -> 0, 1 -> 1, 2 -> 0; instance 2 can only be reached through instance 1.
  const Placement placement = OneLayer({{0, 2}, {0, 1, 2}, {1}});
  EXPECT_EQ(LoadsOf(SchedulingPolicy::kAebsGreedy, placement, 3), (std::vector<int32_t>{2, 1, 0}));
  EXPECT_EQ(LoadsOf(SchedulingPolicy::kAebs, placement, 3), (std::vector<int32_t>{1, 1, 1}));
}

TEST(Aebs, RandomDrawsEachReplicaOfAnExpertEquallyOften) {
  constexpr double kDraws = 9000;
  const Placement placement = OneLayer({{0, 1}, {0, 1}, {0, 2}});
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, 3);
  const std::vector<uint16_t> ids = {2, 0, 1, 0};
  std::vector<Replica> replicas(ids.size());
  AebsWorkspace work(3, 3);
  std::vector<int> of_expert_0(3), of_expert_1(3);
  int together = 0;
  for (uint64_t draw = 0; draw < static_cast<uint64_t>(kDraws); ++draw) {
    ScheduleActivatedExperts(SchedulingPolicy::kRandom, layer, ids, work, replicas, draw);
    ExpectSound(placement, layer, ids, replicas, work);
    ++of_expert_0[work.replica_of()[0].instance];
    ++of_expert_1[work.replica_of()[1].instance];
    together += work.replica_of()[0].instance == work.replica_of()[1].instance;
  }
  for (const int count : of_expert_0) EXPECT_NEAR(count, kDraws / 3, 200);
  EXPECT_NEAR(of_expert_1[0], kDraws / 2, 200);
  EXPECT_EQ(of_expert_1[2], 0) << "it has no replica there";
  EXPECT_NEAR(together, kDraws / 3, 200) << "experts are drawn independently";
}

TEST(Aebs, RandomIsTheSameForTheSameDraw) {
  std::mt19937_64 random(MixSeed(TestSeed(), 9));
  const Placement placement = RandomPlacement(64, 7, 60, random);
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, 64);
  std::vector<uint16_t> ids(64);  // all experts, so two draws never agree by chance
  std::iota(ids.begin(), ids.end(), uint16_t{0});
  std::vector<Replica> one(ids.size()), again(ids.size());
  AebsWorkspace fresh(64, 7), used(200, 40);
  int same = 0;
  for (uint64_t draw = 0; draw < 100; ++draw) {
    const uint64_t wide = draw << 32;  // the upper half counts too
    ScheduleActivatedExperts(SchedulingPolicy::kRandom, layer, ids, fresh, one, wide);
    ScheduleActivatedExperts(SchedulingPolicy::kRandom, layer, ids, used, again, wide);
    ASSERT_EQ(one, again);
    ScheduleActivatedExperts(SchedulingPolicy::kRandom, layer, ids, used, again, wide + 1);
    same += one == again;
  }
  EXPECT_EQ(same, 0) << "another draw is another schedule";
}

TEST(Aebs, StaticTakesTheFirstReplica) {
  const Placement placement = OneLayer({{1}, {0, 1, 2}, {2, 0}});
  EXPECT_EQ(LoadsOf(SchedulingPolicy::kStatic, placement, 3), (std::vector<int32_t>{1, 2, 0}));
}

TEST(Aebs, AnEmptyRoundActivatesNothing) {
  const LayerPlacement layer = LayerPlacement::Of(OneLayer({{0}, {1}}), 0, 2);
  AebsWorkspace work(2, 2);
  for (const auto policy : {SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy,
                            SchedulingPolicy::kRandom, SchedulingPolicy::kStatic}) {
    ScheduleActivatedExperts(policy, layer, {}, work, {});
    EXPECT_TRUE(work.activated().empty());
    EXPECT_EQ(LargestLoad(work), 0);
  }
}

TEST(Aebs, AnswersDependOnTheSetOfIdsAlone) {
  std::mt19937_64 random(MixSeed(TestSeed(), 5));
  const Placement placement = RandomPlacement(64, 7, 40, random);
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, 64);
  AebsWorkspace fresh(64, 7);
  AebsWorkspace used(200, 40);  // larger, and with data of other rounds
  std::vector<uint16_t> ids = RandomIds(64, 300, random);
  std::vector<Replica> a(ids.size());
  std::vector<Replica> b(ids.size());
  for (const auto policy : {SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy,
                            SchedulingPolicy::kRandom, SchedulingPolicy::kStatic}) {
    ScheduleActivatedExperts(policy, layer, ids, fresh, a);
    std::vector<uint16_t> shuffled = ids;
    for (int i = 0; i < 5; ++i) {
      std::ranges::shuffle(shuffled, random);
      ScheduleActivatedExperts(policy, layer, shuffled, used, b);
      for (const uint16_t e : fresh.activated()) {
        EXPECT_EQ(fresh.replica_of()[e], used.replica_of()[e]);
      }
    }
  }
}

TEST(AebsDeathTest, RefusesAnIdThatIsNoExpert) {
  AebsWorkspace work(8, 1);
  EXPECT_DEATH(CollectActivated(std::vector<uint16_t>{3, 8}, 8, work), "is_activated");
}

TEST(Aebs, ExactEqualsTheFlowOptimum) {
  constexpr int kCases = 10000;
  std::mt19937_64 random(MixSeed(TestSeed(), 20260101));
  constexpr int kInstances[] = {1, 2, 3, 7, 16, 31, 64, 70};
  int better = 0;
  for (int i = 0; i < kCases; ++i) {
    const int n = kInstances[random() % std::size(kInstances)];
    const int experts = 1 + static_cast<int>(random() % 200);
    const int extra = static_cast<int>(random() % static_cast<uint64_t>(1 + experts * 2));
    const Placement placement = RandomPlacement(experts, n, extra, random);
    const LayerPlacement layer = LayerPlacement::Of(placement, 0, experts);
    const size_t count = i % 50 == 0 ? 0 : random() % 600;
    const std::vector<uint16_t> ids = RandomIds(experts, count, random);
    AebsWorkspace work(experts, n);
    std::vector<Replica> replicas(ids.size());
    ScheduleActivatedExperts(SchedulingPolicy::kAebsGreedy, layer, ids, work, replicas);
    ExpectSound(placement, layer, ids, replicas, work);
    const int greedy = LargestLoad(work);
    ScheduleActivatedExperts(SchedulingPolicy::kAebs, layer, ids, work, replicas);
    ExpectSound(placement, layer, ids, replicas, work);
    ASSERT_EQ(LargestLoad(work), FlowOptimum(layer, work.activated()).LargestLoad())
        << "case " << i << ": E=" << experts << " n=" << n << " ids=" << ids.size();
    ASSERT_LE(LargestLoad(work), greedy);
    better += LargestLoad(work) < greedy ? 1 : 0;
  }
  // Otherwise the cases would be too easy to tell the two apart.
  EXPECT_GT(better, kCases / 100);
}

TEST(Aebs, ExactLoadsAreLexicographicallyLeast) {
  std::mt19937_64 random(MixSeed(TestSeed(), 7));
  for (int i = 0; i < 2000; ++i) {
    const int n = 1 + static_cast<int>(random() % 5);
    const int experts = 1 + static_cast<int>(random() % 9);
    const Placement placement =
        RandomPlacement(experts, n, static_cast<int>(random() % 12), random);
    const LayerPlacement layer = LayerPlacement::Of(placement, 0, experts);
    const std::vector<uint16_t> ids = RandomIds(experts, random() % 30, random);
    AebsWorkspace work(experts, n);
    std::vector<Replica> replicas(ids.size());
    ScheduleActivatedExperts(SchedulingPolicy::kAebs, layer, ids, work, replicas);
    std::vector<int> loads(work.load().begin(), work.load().end());
    std::ranges::sort(loads, std::greater<>());
    ASSERT_EQ(loads, LexicographicOptimum(layer, work.activated())) << "case " << i;
  }
}

struct RealRouting {
  const char* file;
  int experts;
  friend void PrintTo(const RealRouting& routing, std::ostream* out) { *out << routing.file; }
};

class AebsOnRealRouting : public testing::TestWithParam<RealRouting> {};

TEST_P(AebsOnRealRouting, ExactEqualsTheFlowOptimumForEveryBatch) {
  const RoutedTokens tokens =
      ReadRoutingExcerpt(test::SourceDir() + "/data/routing/" + GetParam().file);
  ASSERT_GE(tokens.size(), 500u);
  const int experts = GetParam().experts;
  for (const int n : {2, 6, 8, 16}) {
    const Placement placement = DealtInTurn(experts, n);
    const LayerPlacement layer = LayerPlacement::Of(placement, 0, experts);
    AebsWorkspace work(experts, n);
    for (const size_t batch : {1, 16, 64, 256}) {
      for (size_t first = 0; first + batch <= tokens.size(); first += std::max<size_t>(batch, 16)) {
        for (size_t l = 0; l < tokens[0].size(); ++l) {
          const std::vector<uint16_t> ids = IdsOf(tokens, l, first, batch);
          std::vector<Replica> replicas(ids.size());
          ScheduleActivatedExperts(SchedulingPolicy::kAebs, layer, ids, work, replicas);
          ExpectSound(placement, layer, ids, replicas, work);
          ASSERT_EQ(LargestLoad(work), FlowOptimum(layer, work.activated()).LargestLoad());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Data, AebsOnRealRouting,
                         testing::Values(RealRouting{"deepseek_v2_lite_intent.csv", 64},
                                         RealRouting{"deepseek_v2_lite_law.csv", 64},
                                         RealRouting{"gptoss20b_decode.csv", 32}));

}  // namespace
}  // namespace janus
