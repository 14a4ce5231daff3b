#include "controllers/simulate/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace janus::controllers {
namespace {

std::vector<SimulatedRequest> Row(double arrival, int input, int output) {
  return {{arrival, input, output, 1}};
}

std::vector<SimulatedRequest> EverySecond(int count) {
  std::vector<SimulatedRequest> rows;
  for (int i = 0; i < count; ++i) rows.push_back({static_cast<double>(i), 100 + i % 7, 50, 1});
  return rows;
}

int64_t Requests(const std::vector<SimulatedRequest>& all) {
  int64_t sum = 0;
  for (const SimulatedRequest& request : all) sum += request.weight;
  return sum;
}

TEST(SpreadDemand, LeavesATraceAsItIs) {
  const auto rows = EverySecond(20);
  EXPECT_EQ(SpreadDemand(rows, {}), rows);
}

TEST(SpreadDemand, LosesNoRequestToRounding) {
  const auto rows = EverySecond(1000);
  for (const double factor : {0.3, 1.7, 37.25, 400.0}) {
    Replay replay;
    replay.factor = factor;
    EXPECT_NEAR(static_cast<double>(Requests(SpreadDemand(rows, replay))), factor * 1000, 1)
        << factor;
  }
}

TEST(SpreadDemand, SpreadsARowOverItsIntervalInGroupsOfTheLargestWeight) {
  const auto rows = EverySecond(1200);
  Replay replay;
  replay.factor = 400;
  replay.max_weight = 100;
  const auto spread = SpreadDemand(rows, replay);
  ASSERT_EQ(spread.size(), 4800u);
  for (size_t i = 0; i < spread.size(); ++i) {
    ASSERT_EQ(spread[i].weight, 100);
    // Rows come once a second: the groups of row r are in [r, r + 1), each in its quarter.
    ASSERT_GE(spread[i].arrival, static_cast<double>(i) / 4 - 0.01) << i;
    ASSERT_LE(spread[i].arrival, static_cast<double>(i + 1) / 4 + 0.01) << i;
  }
}

TEST(SpreadDemand, RepeatsWithTheSeed) {
  Replay replay;
  replay.factor = 12;
  replay.max_weight = 5;
  const auto rows = EverySecond(50);
  const auto first = SpreadDemand(rows, replay);
  EXPECT_EQ(first, SpreadDemand(rows, replay));
  EXPECT_TRUE(std::ranges::is_sorted(first, {}, &SimulatedRequest::arrival));
  replay.seed = 2;
  EXPECT_NE(first, SpreadDemand(rows, replay));
}

TEST(SpreadDemand, OfNothingIsNothing) {
  EXPECT_TRUE(SpreadDemand({}, {}).empty());
  EXPECT_EQ(SpreadDemand(Row(5, 1, 1), {}).size(), 1u);
}

TEST(DrawDemand, KeepsRateMeanAndPercentilesOfEveryWindow) {
  const LengthDistribution input = {1054.2, 59, 2036, 19617};
  const LengthDistribution output = {300, 280, 481, 567};
  const std::vector<RateWindow> windows = {{0, 40, input, output}, {600, 10, input, output}};
  Replay replay;
  replay.factor = 2;
  replay.max_weight = 1;
  const auto drawn = DrawDemand(windows, replay);
  std::vector<int> lengths;
  double first = 0, second = 0, outputs = 0;
  for (const SimulatedRequest& request : drawn) {
    (request.arrival < 600 ? first : second) += request.weight;
    lengths.push_back(request.input);
    outputs += request.output;
  }
  EXPECT_NEAR(first, 48'000, 4 * std::sqrt(48'000));
  EXPECT_NEAR(second, 12'000, 4 * std::sqrt(12'000));
  std::ranges::sort(lengths);
  const auto at = [&](double share) {
    return lengths[static_cast<size_t>(share * static_cast<double>(lengths.size()))];
  };
  EXPECT_NEAR(at(0.5), 59, 5);
  EXPECT_NEAR(at(0.9), 2036, 100);
  EXPECT_NEAR(at(0.99), 19617, 1000);
  EXPECT_NEAR(outputs / static_cast<double>(drawn.size()), 300, 10);
}

}  // namespace
}  // namespace janus::controllers
