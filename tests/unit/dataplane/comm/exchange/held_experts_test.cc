#include "dataplane/comm/exchange/held_experts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace janus::dataplane {
namespace {

constexpr uint16_t kEmpty = Placement::kEmpty;

// Three instances of two slots; expert 0 has replicas on the first two.
Placement Placed() {
  Placement placement;
  placement.layers = 2;
  placement.slots_of_instance = {2, 2, 2};
  placement.expert_of = {0, 1, 2, 0,      3, kEmpty,  //
                         3, 2, 1, kEmpty, 0, 1};
  return placement;
}

std::vector<int32_t> PlacesIn(const HeldExperts& held, int layer, std::vector<uint16_t> ids) {
  std::vector<int32_t> places(ids.size() / 2, 99);
  const int selected = held.Select(layer, ids, 2, places);
  EXPECT_EQ(selected, std::ranges::count_if(places, [](int32_t place) { return place >= 0; }));
  return places;
}

TEST(HeldExperts, ARowGoesToEveryHolderOfOneOfItsExperts) {
  const std::vector<uint16_t> ids = {0, 3, 1, 2, 3, 2};
  const auto of = [&](std::vector<int> ranks, int layer) {
    return PlacesIn(HeldExperts(Placed(), ranks), layer, ids);
  };
  using Places = std::vector<int32_t>;
  EXPECT_EQ(of({0}, 0), (Places{0, 1, -1}));
  EXPECT_EQ(of({1}, 0), (Places{0, 1, 2})) << "a replica counts, whichever will be used";
  EXPECT_EQ(of({2}, 0), (Places{0, -1, 1}));
  EXPECT_EQ(of({2}, 1), (Places{0, 1, -1})) << "layers differ";
  EXPECT_EQ(of({0, 2}, 0), (Places{0, 1, 2})) << "a node needs what its instances need";
}

TEST(HeldExperts, WhatNoInstanceHoldsIsHeldNowhere) {
  const HeldExperts all(Placed(), std::vector<int>{0, 1, 2});
  EXPECT_EQ(all.experts(), 4u);
  EXPECT_EQ(PlacesIn(all, 0, {4, kEmpty, 9, 1}), (std::vector<int32_t>{-1, 0}));
  EXPECT_TRUE(PlacesIn(all, 0, {}).empty());
}

}  // namespace
}  // namespace janus::dataplane
