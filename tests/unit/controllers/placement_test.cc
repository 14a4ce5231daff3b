#include "controllers/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

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

// Over random requests: valid, first replicas balanced to one, spare slots empty, nothing left
// empty that could be filled, the same answer twice.
TEST(RoundRobin, HoldsItsPromisesForAnyRequest) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
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

}  // namespace
}  // namespace janus::controllers
