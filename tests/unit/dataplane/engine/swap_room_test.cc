#include "dataplane/engine/swap_room.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

SwapRoom MakeRoom(int pages) {
  SwapRoom room;
  EXPECT_TRUE(room.TakePages(kernels::HostContext(), 2, 64, pages).ok());
  return room;
}

std::vector<int32_t> Given(SwapRoom& room, int count) {
  std::vector<int32_t> pages;
  EXPECT_TRUE(room.Give(count, pages));
  return pages;
}

TEST(SwapRoom, HasNoneUntilItIsTaken) {
  SwapRoom room;
  std::vector<int32_t> pages;
  EXPECT_EQ(room.pages(), 0);
  EXPECT_FALSE(room.Give(1, pages));
  EXPECT_TRUE(room.Give(0, pages));
  EXPECT_TRUE(pages.empty());
}

TEST(SwapRoom, LaysNeighboursOfALayerOneAfterTheOther) {
  const SwapRoom room = MakeRoom(5);
  for (int page = 0; page < 5; ++page) {
    EXPECT_EQ(room.PageAt(0, page), room.PageAt(0, 0) + page * 64);
    EXPECT_EQ(room.PageAt(1, page), room.PageAt(0, page) + 5 * 64);
  }
}

TEST(SwapRoom, GivesNeighboursWhereItHasThem) {
  SwapRoom room = MakeRoom(10);
  std::vector<int32_t> a = Given(room, 2), b = Given(room, 1), c = Given(room, 3);
  EXPECT_EQ(c, (std::vector<int32_t>{3, 4, 5}));
  room.TakeBack(a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(Given(room, 3), (std::vector<int32_t>{6, 7, 8})) << "0 and 1 are too few";
  EXPECT_EQ(Given(room, 2), (std::vector<int32_t>{0, 1}));
}

TEST(SwapRoom, GivesTheLowestWhereItHasNoSuchNeighbours) {
  SwapRoom room = MakeRoom(6);
  std::vector<int32_t> a = Given(room, 1), b = Given(room, 1), c = Given(room, 1);
  room.TakeBack(b);
  EXPECT_EQ(Given(room, 4), (std::vector<int32_t>{1, 3, 4, 5}));
}

TEST(SwapRoom, GivesWhollyOrNotAtAll) {
  SwapRoom room = MakeRoom(4);
  std::vector<int32_t> pages = Given(room, 3);
  std::vector<int32_t> more{77};
  EXPECT_FALSE(room.Give(2, more));
  EXPECT_EQ(more, (std::vector<int32_t>{77}));
  EXPECT_EQ(room.given(), 3);
  EXPECT_TRUE(room.Give(1, more));
  EXPECT_EQ(more, (std::vector<int32_t>{77, 3}));
}

TEST(SwapRoom, GivesNoPageTwiceAndTakesAllBack) {
  Random random(MixSeed(TestSeed(), 71));
  SwapRoom room = MakeRoom(40);
  std::vector<std::vector<int32_t>> held(6);
  for (int step = 0; step < 2000; ++step) {
    std::vector<int32_t>& one = held[static_cast<size_t>(random.Between(0, 5))];
    if (random.Chance(0.5)) {
      const int count = random.Between(1, 12);
      const bool fits = count <= 40 - room.given();
      ASSERT_EQ(room.Give(count, one), fits);
    } else {
      room.TakeBack(one);
    }
    std::set<int32_t> all;
    size_t count = 0;
    for (const std::vector<int32_t>& of : held) {
      all.insert(of.begin(), of.end());
      count += of.size();
    }
    ASSERT_EQ(all.size(), count);
    ASSERT_EQ(room.given(), static_cast<int>(count));
    ASSERT_TRUE(all.empty() || (*all.begin() >= 0 && *all.rbegin() < 40));
  }
}

}  // namespace
}  // namespace janus::dataplane
