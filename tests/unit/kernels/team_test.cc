#include "kernels/team.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

namespace janus::kernels {
namespace {

class TeamTest : public testing::TestWithParam<int> {};

TEST_P(TeamTest, RunsEveryPartOnceAndShowsItsWrites) {
  Team team(GetParam());
  ASSERT_EQ(team.size(), GetParam());
  std::vector<int> calls(static_cast<size_t>(team.size()));
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    team.Run([&](int part, int parts) {
      ASSERT_EQ(parts, team.size());
      ++calls[static_cast<size_t>(part)];
    });
  }
  for (const int n : calls) EXPECT_EQ(n, kRuns);
}

TEST_P(TeamTest, CallerIsPartZeroAndEveryPartHasItsThread) {
  Team team(GetParam());
  std::vector<std::thread::id> ids(static_cast<size_t>(team.size()));
  team.Run([&](int part, int) { ids[static_cast<size_t>(part)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), ids.size());
}

TEST_P(TeamTest, FlushesSubnormalsAlikeOnEveryThreadAndRestoresTheCaller) {
  const unsigned before = _mm_getcsr();
  Team team(GetParam());
  std::vector<float> products(static_cast<size_t>(team.size()), -1.0f);
  volatile float smallest = std::numeric_limits<float>::min();
  team.Run([&](int part, int) { products[static_cast<size_t>(part)] = smallest * 0.5f; });
  for (const float p : products) EXPECT_EQ(p, 0.0f);
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(Team, RunsAloneInTheSameFloatMode) {
  volatile float smallest = std::numeric_limits<float>::min();
  float product = -1.0f;
  Team::RunAlone([&](int part, int parts) {
    EXPECT_EQ(part, 0);
    EXPECT_EQ(parts, 1);
    product = smallest * 0.5f;
  });
  EXPECT_EQ(product, 0.0f);
}

TEST_P(TeamTest, EndsWithoutHavingRun) {
  const Team team(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Threads, TeamTest, testing::Values(1, 2, 3, 9));

TEST(PartOf, CoversEverythingOnceInOrder) {
  for (const int64_t count : {0, 1, 5, 64, 1000}) {
    for (const int parts : {1, 3, 7}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Range range = PartOf(count, part, parts);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, count / parts + 1);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace janus::kernels
