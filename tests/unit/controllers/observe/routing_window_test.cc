#include "controllers/observe/routing_window.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::controllers {
namespace {

RoutedRound Round(uint64_t step, int layer, std::vector<uint16_t> experts) {
  return {1, step, layer, 0, 2, std::move(experts)};
}

TEST(RoutingWindow, TakesEachRoundOnce) {
  RoutingWindow window;
  const std::vector<RoutedRound> first = {Round(1, 0, {0, 1}), Round(2, 1, {2, 3})};
  AddRounds(first, 10, {}, window);
  const std::vector<RoutedRound> second = {Round(2, 1, {2, 3}), Round(3, 0, {1, 2})};
  AddRounds(second, 20, {}, window);
  ASSERT_EQ(window.size(), 3u);
  EXPECT_EQ(window[2]->round.step, 3u);
  EXPECT_EQ(window[1]->time_seconds, 10);
}

TEST(RoutingWindow, DropsWhatIsTooOldOrTooMuch) {
  RoutingWindow window;
  for (uint64_t step = 1; step <= 10; ++step) {
    const std::vector<RoutedRound> one = {Round(step, 0, {0, 1})};
    AddRounds(one, static_cast<double>(step), {.age_seconds = 4}, window);
  }
  ASSERT_EQ(window.size(), 5u);
  EXPECT_EQ(window.front()->round.step, 6u);
  const std::vector<RoutedRound> one = {Round(11, 0, {0, 1, 2, 3})};
  AddRounds(one, 11, {.age_seconds = 100, .most_ids = 7}, window);
  ASSERT_EQ(window.size(), 2u);
  EXPECT_EQ(window.front()->round.step, 10u);
}

TEST(RoutingWindow, BecomesActivationsByLayer) {
  RoutingWindow window;
  std::vector<RoutedRound> rounds;
  for (uint64_t step = 0; step < kFewestRounds; ++step) {
    rounds.push_back(Round(step, 0, {0, 1, 1, 0}));
    rounds.push_back(Round(step, 1, {2, 3, 3, 0}));
  }
  rounds.push_back(Round(99, 0, {0, 9}));  // of another model
  rounds.push_back(Round(99, 7, {0, 1}));
  AddRounds(rounds, 1, {}, window);
  const auto layers = ActivationsOf(window, 2, 4);
  ASSERT_TRUE(layers.ok()) << layers.status().ToString();
  ASSERT_EQ(layers->size(), 2u);
  EXPECT_EQ((*layers)[0].rows, (std::vector<double>{24, 24, 0, 0}));
  EXPECT_EQ((*layers)[0].steps.size(), 12u);
  EXPECT_EQ((*layers)[1].steps[0], (std::vector<uint16_t>{0, 2, 3}));
  EXPECT_EQ((*layers)[1].together[3 * 4 + 2], 12);
  EXPECT_EQ((*layers)[1].together[0 * 4 + 3], 12);
  EXPECT_EQ((*layers)[1].together[0 * 4 + 2], 0);
}

TEST(RoutingWindow, TooFewRoundsNameTheLayer) {
  RoutingWindow window;
  std::vector<RoutedRound> rounds;
  for (uint64_t step = 0; step < kFewestRounds; ++step) rounds.push_back(Round(step, 0, {0, 1}));
  AddRounds(rounds, 1, {}, window);
  const auto layers = ActivationsOf(window, 2, 4);
  EXPECT_EQ(layers.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(layers.status().message(), "layer 1 has 0 sampled rounds"))
      << layers.status().message();
}

}  // namespace
}  // namespace janus::controllers
