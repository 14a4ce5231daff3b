#include "controllers/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/aebs.h"
#include "controllers/replicas/default_slots.h"
#include "tests/support/random.h"

namespace janus::controllers {
namespace {

constexpr int kNone = Placement::kEmpty;

std::vector<int> Row(const Placement& placement, int layer) {
  std::vector<int> row;
  for (int slot = 0; slot < placement.total_slots(); ++slot)
    row.push_back(placement.at(layer, slot));
  return row;
}

struct Case {
  const char* name;
  PlacementRequest request;
  std::vector<int> row;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class RoundRobin : public testing::TestWithParam<Case> {};

TEST_P(RoundRobin, Deals) {
  const Result<Placement> placement = PlaceRoundRobin(GetParam().request);
  ASSERT_TRUE(placement.ok()) << placement.status().ToString();
  for (int layer = 0; layer < GetParam().request.layers; ++layer) {
    EXPECT_EQ(Row(*placement, layer), GetParam().row) << "layer " << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RoundRobin,
    testing::Values(
        Case{"OneInstanceHoldsAll", {2, 4, {4}, 0}, {0, 1, 2, 3}},
        Case{"ThreeInTurn", {1, 6, {2, 2, 2}, 0}, {0, 3, 1, 4, 2, 5}},
        Case{"UnevenInstancesKeepTheirTurnWhileTheyHaveRoom",
             {1, 6, {1, 3, 2}, 0},
             {0, 1, 3, 5, 2, 4}},
        Case{"SecondReplicasFollowAllFirstOnes", {1, 3, {2, 2, 2}, 0}, {0, 2, 1, 0, 2, 1}},
        Case{"SpareSlotsStayEmpty", {3, 4, {4, 4}, 2}, {0, 2, kNone, kNone, 1, 3, kNone, kNone}},
        Case{"NoSecondReplicaOnOneInstance", {1, 2, {4}, 0}, {0, 1, kNone, kNone}},
        Case{"EveryInstanceHoldsEveryExpert", {1, 2, {2, 2}, 0}, {0, 1, 1, 0}},
        Case{"AnInstanceWithoutSlotsGetsNone", {1, 2, {0, 2}, 0}, {0, 1}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RoundRobin, SaysSlotsInstancesExpertsAndWhatToChange) {
  const Status status = PlaceRoundRobin({4, 8, {4, 4, 4}, 2}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "placement: 8 experts need as many slots; 3 expert instances have 6 to fill (2 spare "
      "ones each stay empty); raise slotsPerInstance to 3, or the number of expert instances");
}

TEST(RoundRobin, RefusesImpossibleRequests) {
  EXPECT_FALSE(PlaceRoundRobin({0, 8, {8}, 0}).ok());
  EXPECT_FALSE(PlaceRoundRobin({1, 0, {8}, 0}).ok());
  EXPECT_FALSE(PlaceRoundRobin({1, 8, {}, 0}).ok());
  EXPECT_FALSE(PlaceRoundRobin({1, 8, {8, -1}, 0}).ok());
  EXPECT_FALSE(PlaceRoundRobin({1, 8, {8}, -1}).ok());
  EXPECT_FALSE(PlaceRoundRobin({1, 65535, {65535}, 0}).ok());
  EXPECT_FALSE(PlaceRoundRobin({64, 256, {4096}, 0}).ok());
}

// For random requests: the placement is valid, first replicas differ by at most one per instance,
// spare slots are empty, no slot that could be filled is empty, and a second call gives the same
// result.
TEST(RoundRobin, HoldsItsPromisesForAnyRequest) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int run = 0; run < 2000; ++run) {
    PlacementRequest request;
    request.layers = draw(1, 3);
    request.experts = draw(1, 40);
    request.spare_slots = draw(0, 2);
    const int instances = draw(1, 9);
    int fillable = 0;
    for (int i = 0; i < instances; ++i) {
      request.slots_of_instance.push_back(draw(0, 14));
      fillable += std::max(request.slots_of_instance.back() - request.spare_slots, 0);
    }
    const Result<Placement> placement = PlaceRoundRobin(request);
    ASSERT_EQ(placement.ok(), fillable >= request.experts);
    if (!placement.ok()) continue;
    const Status valid = Validate(*placement, request.layers, request.experts);
    ASSERT_TRUE(valid.ok()) << valid.ToString();
    ASSERT_EQ(*placement, *PlaceRoundRobin(request));

    for (int i = 0; i < instances; ++i) {
      const int slots = request.slots_of_instance[static_cast<size_t>(i)];
      const int first = placement->first_slot(Rank{i});
      int filled = 0;
      for (int slot = 0; slot < slots; ++slot) {
        const int expert = placement->at(0, first + slot);
        if (expert != kNone) ++filled;
        if (slot >= slots - request.spare_slots) {
          ASSERT_EQ(expert, kNone) << "a spare slot is filled";
        }
      }
      const int room = std::max(slots - request.spare_slots, 0);
      ASSERT_EQ(filled, std::min(room, request.experts)) << "instance " << i;
    }
  }
}

// Replicas of each expert, over all layers.
std::vector<int> ReplicasOf(const Placement& placement, int experts) {
  std::vector<int> replicas(static_cast<size_t>(experts));
  for (const uint16_t expert : placement.expert_of) {
    if (expert != Placement::kEmpty) ++replicas[expert];
  }
  return replicas;
}

TEST(RoundRobin, OverTheLayersAllExpertsHaveAsManyReplicas) {
  // 12 slots for 8 experts: half of them have a second replica in each of four layers.
  const Placement placement = *PlaceRoundRobin({4, 8, {8, 8}, 2});
  EXPECT_EQ(ReplicasOf(placement, 8), std::vector<int>(8, 6));
  EXPECT_EQ(Row(placement, 0), (std::vector<int>{0, 2, 4, 6, 1, 3, kNone, kNone,  //
                                                 1, 3, 5, 7, 0, 2, kNone, kNone}));
  EXPECT_EQ(Row(placement, 1), (std::vector<int>{0, 2, 4, 6, 5, 7, kNone, kNone,  //
                                                 1, 3, 5, 7, 4, 6, kNone, kNone}));
}

// Expected activated experts of the busiest instance, where rows choose among all experts alike.
double BusiestActivated(const PlacementRequest& request, int rows, int top_k) {
  const Placement placement = *PlaceRoundRobin(request);
  const LayerPlacement layer = LayerPlacement::Of(placement, 1, request.experts);
  const int instances = static_cast<int>(request.slots_of_instance.size());
  AebsWorkspace work(request.experts, instances);
  std::mt19937_64 random(1);
  std::vector<uint16_t> experts(static_cast<size_t>(request.experts));
  std::iota(experts.begin(), experts.end(), uint16_t{0});
  constexpr int kRounds = 400;
  double sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint16_t> chosen;
    for (int row = 0; row < rows; ++row) {
      std::shuffle(experts.begin(), experts.end(), random);
      chosen.insert(chosen.end(), experts.begin(), experts.begin() + top_k);
    }
    std::vector<Replica> replicas(chosen.size());
    ScheduleActivatedExperts(SchedulingPolicy::kAebs, layer, chosen, work, replicas);
    sum += *std::max_element(work.load().begin(), work.load().end());
  }
  return sum / kRounds;
}

// With the slots that a service has by default AEBS has something to choose from: the busiest
// instance has 13.4 activated experts in place of 16.8, 14.3 of 15.8, 13.3 of 15.2 and 1.6 of 1.8.
TEST(SlotsByDefault, LeaveAebsLessForTheBusiestInstance) {
  struct Size {
    int experts, instances, rows, top_k;
  };
  for (const Size& size : {Size{256, 8, 16, 8}, {256, 16, 64, 8}, {160, 6, 16, 6}, {8, 3, 2, 2}}) {
    SCOPED_TRACE(std::to_string(size.experts) + " experts, " + std::to_string(size.instances));
    const auto with_slots = [&](int slots) {
      const auto n = static_cast<size_t>(size.instances);
      return BusiestActivated({2, size.experts, std::vector<int>(n, slots), 0}, size.rows,
                              size.top_k);
    };
    const double without = with_slots(FewestSlots(size.experts, size.instances));
    const double with = with_slots(SlotsByDefault(size.experts, size.instances, size.experts));
    EXPECT_LT(with, 0.92 * without);
  }
}

TEST(SlotsByDefault, AreHalfAsManyAgainAsFarAsMemoryHoldsThem) {
  EXPECT_EQ(SlotsByDefault(256, 8, 256), 48);
  EXPECT_EQ(SlotsByDefault(8, 3, 8), 4);
  EXPECT_EQ(SlotsByDefault(256, 8, 40), 40) << "memory";
  EXPECT_EQ(SlotsByDefault(256, 8, 10), 32) << "the model must be held in any case";
  EXPECT_EQ(SlotsByDefault(8, 1, 100), 8) << "no second replica on one instance";
  EXPECT_EQ(SlotsByDefault(8, 20, 8), 1);
  EXPECT_EQ(FewestSlots(8, 3), 3);
}

std::vector<HeldExperts> HeldBy(const Placement& placement) {
  std::vector<HeldExperts> held;
  for (int i = 0; i < static_cast<int>(placement.slots_of_instance.size()); ++i) {
    HeldExperts& own = held.emplace_back();
    const int first = placement.first_slot(Rank{i});
    for (int layer = 0; layer < placement.layers; ++layer) {
      std::vector<uint16_t>& experts = own.emplace_back();
      for (int slot = first; slot < first + placement.slots_of_instance[static_cast<size_t>(i)];
           ++slot) {
        const uint16_t expert = placement.at(layer, slot);
        if (expert != Placement::kEmpty) experts.push_back(expert);
      }
    }
  }
  return held;
}

// How many experts an instance must load: it has them now and did not before.
int Loaded(const HeldExperts& before, const HeldExperts& after) {
  int loaded = 0;
  for (size_t layer = 0; layer < after.size(); ++layer) {
    for (const uint16_t expert : after[layer]) {
      const bool was = layer < before.size() &&
                       std::count(before[layer].begin(), before[layer].end(), expert) > 0;
      loaded += !was;
    }
  }
  return loaded;
}

PlacementRequest Slots(std::vector<int> slots, int experts = 256, int layers = 3, int spare = 2) {
  return {layers, experts, std::move(slots), spare};
}

// How many experts of a layer have all their replicas in one pod.
int InOnePod(const Placement& placement, const std::vector<int>& pods, int experts) {
  const std::vector<HeldExperts> held = HeldBy(placement);
  int out = 0;
  for (int layer = 0; layer < placement.layers; ++layer) {
    for (int expert = 0; expert < experts; ++expert) {
      std::set<int> has;
      for (size_t i = 0; i < held.size(); ++i) {
        if (std::ranges::count(held[i][static_cast<size_t>(layer)], expert) > 0)
          has.insert(pods[i]);
      }
      out += has.size() == 1;
    }
  }
  return out;
}

TEST(PodNumbers, AreThoseOfTheFirstOfEachPod) {
  const std::vector<std::string> names = {"b", "b", "a", "b", "c"};
  EXPECT_EQ(PodNumbers(names), (std::vector{0, 0, 1, 0, 2}));
}

TEST(PlaceRoundRobin, ReplicasGoToDifferentPods) {
  for (const int experts : {6, 8, 12, 13, 64}) {
    // Two replicas of each, and no room for more.
    const int slots = (2 * experts + 3) / 4;
    PlacementRequest request = Slots(std::vector<int>(4, slots), experts, 3, 0);
    request.pod_of_instance = {0, 0, 1, 1};
    EXPECT_EQ(InOnePod(*PlaceRoundRobin(request), request.pod_of_instance, experts), 0) << experts;
  }
}

TEST(PlaceKeeping, ReplicasThatComeGoToPodsWithoutTheExpert) {
  PlacementRequest request = Slots(std::vector<int>(4, 4), 8, 2, 0);
  request.pod_of_instance = {0, 0, 1, 1};
  std::vector<HeldExperts> held = HeldBy(*PlaceRoundRobin(request));
  held[2].clear();
  held[3].clear();
  EXPECT_EQ(InOnePod(*PlaceKeeping(request, held), request.pod_of_instance, 8), 0);
}

TEST(PlaceKeeping, WithNothingHeldIsTheFirstPlacement) {
  const PlacementRequest request = Slots(std::vector<int>(10, 28));
  const std::vector<HeldExperts> none(10);
  EXPECT_EQ(*PlaceKeeping(request, none), *PlaceRoundRobin(request));
}

TEST(PlaceKeeping, TheSameInstancesHaveTheSame) {
  for (const int slots : {28, 40, 100}) {
    const PlacementRequest request = Slots(std::vector<int>(10, slots));
    const Placement first = *PlaceRoundRobin(request);
    EXPECT_EQ(*PlaceKeeping(request, HeldBy(first)), first) << slots;
  }
}

TEST(PlaceKeeping, WhoComesInAnothersPlaceLoadsWhatThatHadAndNobodyElseLoads) {
  const PlacementRequest request = Slots(std::vector<int>(10, 28));
  std::vector<HeldExperts> held = HeldBy(*PlaceRoundRobin(request));
  // The first instance has left; a new one joins at the end.
  const HeldExperts lost = held.front();
  held.erase(held.begin());
  held.emplace_back();
  const std::vector<HeldExperts> after = HeldBy(*PlaceKeeping(request, held));
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(after[i], held[i]) << i;
  EXPECT_EQ(Loaded(lost, after[9]), 0);
}

TEST(PlaceKeeping, OneMoreTakesFromTheOthersWhichLoadNothing) {
  std::vector<HeldExperts> held = HeldBy(*PlaceRoundRobin(Slots(std::vector<int>(10, 28))));
  held.emplace_back();
  const std::vector<HeldExperts> after =
      HeldBy(*PlaceKeeping(Slots(std::vector<int>(11, 26)), held));
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(Loaded(held[i], after[i]), 0) << i;
}

TEST(PlaceKeeping, OneFewerIsSharedOutAmongTheOthers) {
  std::vector<HeldExperts> held = HeldBy(*PlaceRoundRobin(Slots(std::vector<int>(10, 28))));
  held.erase(held.begin() + 4);
  const std::vector<HeldExperts> after =
      HeldBy(*PlaceKeeping(Slots(std::vector<int>(9, 31)), held));
  for (size_t i = 0; i < 9; ++i) {
    for (size_t layer = 0; layer < 3; ++layer) {
      for (const uint16_t expert : held[i][layer]) {
        EXPECT_EQ(std::count(after[i][layer].begin(), after[i][layer].end(), expert), 1);
      }
    }
    EXPECT_LE(Loaded(held[i], after[i]), 3 * 3) << i;
  }
}

// For any change: every expert is placed, no instance has an expert twice or more experts than fit,
// replicas are as even as in a new placement, and the same request changes nothing.
TEST(PlaceKeeping, HoldsItsRulesUnderAnyChange) {
  std::mt19937 random(TestSeed());
  const auto below = [&](size_t bound) { return random() % bound; };
  for (int round = 0; round < 60; ++round) {
    const int experts = 3 + static_cast<int>(below(40));
    std::vector<HeldExperts> held;
    for (int step = 0; step < 8; ++step) {
      const int instances = 1 + static_cast<int>(below(7));
      while (static_cast<int>(held.size()) > instances) {
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(below(held.size())));
      }
      held.resize(static_cast<size_t>(instances));
      std::vector<int> slots;
      const int least = (experts + instances - 1) / instances;
      for (int i = 0; i < instances; ++i) {
        slots.push_back(least + 1 + static_cast<int>(below(static_cast<size_t>(least))));
      }
      const PlacementRequest request = Slots(slots, experts, 2, 1);
      const Result<Placement> placement = PlaceKeeping(request, held);
      ASSERT_TRUE(placement.ok()) << placement.status().ToString();
      held = HeldBy(*placement);
      EXPECT_EQ(*PlaceKeeping(request, held), *placement);
      for (size_t layer = 0; layer < 2; ++layer) {
        std::vector<int> counts(static_cast<size_t>(experts));
        for (size_t i = 0; i < held.size(); ++i) {
          const std::vector<uint16_t>& own = held[i][layer];
          EXPECT_LE(static_cast<int>(own.size()), slots[i] - 1);
          EXPECT_EQ(std::set<uint16_t>(own.begin(), own.end()).size(), own.size());
          for (const uint16_t expert : own) ++counts[expert];
        }
        const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
        EXPECT_GE(*fewest, 1);
        EXPECT_LE(*most - *fewest, 1);
      }
    }
  }
}

}  // namespace
}  // namespace janus::controllers
