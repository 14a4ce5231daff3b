#include "operator/reconcile/epochs/imbalance.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace janus::control {
namespace {

Placement PlacementOfTwo() {
  Placement out;
  out.layers = 2;
  out.slots_of_instance = {2, 3};
  out.expert_of = {0, 1, 2, 1, Placement::kEmpty,  // layer 0: expert 1 on both
                   2, 0, 1, 0, Placement::kEmpty};
  return out;
}

TEST(Imbalance, IsWhatTheBusiestHasOverTheMeanLayerByLayer) {
  const std::vector<LayerPopularity> popularity = {{0, 10, {4, 6, 10}}, {1, 10, {2, 10, 8}}};
  const auto loads = ExpectedLoads(PlacementOfTwo(), popularity);
  ASSERT_TRUE(loads);
  EXPECT_EQ(*loads, (std::vector<double>{4 + 3, 10 + 3, 8 + 1, 10 + 1}));
  // (13 + 11) over (10 + 10).
  EXPECT_EQ(ImbalancePermille(*loads, 2), 1200);
  EXPECT_EQ(ImbalancePermille(std::vector<double>{5, 5, 5}, 3), 1000);
  EXPECT_EQ(ImbalancePermille(std::vector<double>{9, 0, 0}, 3), 3000);
  // Layers do not compensate for each other.
  EXPECT_EQ(ImbalancePermille(std::vector<double>{8, 0, 0, 8}, 2), 2000);
}

TEST(Imbalance, OfLayersThatAreNotToldOfIsThatOfTheOthers) {
  const auto loads =
      ExpectedLoads(PlacementOfTwo(), std::vector<LayerPopularity>{{1, 1, {2, 0, 4}}});
  ASSERT_TRUE(loads);
  EXPECT_EQ(ImbalancePermille(*loads, 2), 1667);  // 5 over 3
}

TEST(Imbalance, OfNoLoadThereIsNone) {
  const auto loads = ExpectedLoads(PlacementOfTwo(), {});
  ASSERT_TRUE(loads);
  EXPECT_FALSE(ImbalancePermille(*loads, 2));
  EXPECT_FALSE(ImbalancePermille({}, 0));
}

TEST(Imbalance, APopularityOfAnotherModelIsRefused) {
  EXPECT_FALSE(ExpectedLoads(PlacementOfTwo(), std::vector<LayerPopularity>{{2, 1, {1, 1, 1}}}));
  EXPECT_FALSE(ExpectedLoads(PlacementOfTwo(), std::vector<LayerPopularity>{{-1, 1, {1, 1, 1}}}));
  EXPECT_FALSE(ExpectedLoads(PlacementOfTwo(), std::vector<LayerPopularity>{{0, 1, {1, 1}}}));
}

TEST(Imbalance, LoadsAddUpSoThatATimeIsTheDifferenceOfTwoLooks) {
  Random random(TestSeed());
  Placement placement = PlacementOfTwo();
  std::vector<LayerPopularity> before, lately, now;
  for (int layer = 0; layer < 2; ++layer) {
    before.push_back({layer, 0, {}});
    lately.push_back({layer, 0, {}});
    now.push_back({layer, 0, {}});
    for (int e = 0; e < 3; ++e) {
      const uint64_t old = random.Next() % 1'000'000'007, more = random.Next() % 1000;
      before.back().tokens.push_back(old);
      lately.back().tokens.push_back(more);
      now.back().tokens.push_back(old + more);
    }
  }
  const auto difference = Since(*ExpectedLoads(placement, before), *ExpectedLoads(placement, now));
  ASSERT_TRUE(difference);
  EXPECT_EQ(ImbalancePermille(*difference, 2),
            ImbalancePermille(*ExpectedLoads(placement, lately), 2));
  EXPECT_FALSE(Since(*ExpectedLoads(placement, now), *ExpectedLoads(placement, before)));
  EXPECT_FALSE(Since(std::vector<double>{1}, std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace janus::control
