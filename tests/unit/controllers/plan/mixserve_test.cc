#include "controllers/plan/mixserve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "controllers/plan/terms.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

// By hand, two nodes of H100: 64 sequences, TP8 of attention in each node, EP16 of experts over
// both. An all-reduce of 32 rows over 8 GPUs at 450 GB/s; an all-to-all of 64 / 16 rows times top-8
// in a group of two data-parallel ranks at 50 GB/s (eq. 5 for DP < EP), in both directions.
TEST(MixServe, CommunicationIsEquationFive) {
  const Setting setting = On("deepseek-v3", "H100");
  const double row = 7168 * 2;
  const double reduce = 2 * (32 * row / 8) / 450e9;
  const double exchange = 2 * (64. / 16 * 8 * row / 2 * (2 - 1)) / 50e9;
  EXPECT_NEAR(MixServeTimesOf(setting, {16, 1, 8, 1, false}, 64, {}).communication,
              reduce + exchange, 1e-12);
  // DP16 = EP16: the other case, with rows of one rank in a group of 16.
  EXPECT_NEAR(MixServeTimesOf(setting, {16}, 64, {}).communication,
              2 * (64. / 16 * 8 * row / 16 * 15) / 50e9, 1e-12);
  // Experts split over eight data-parallel ranks sum the rows of all of them.
  EXPECT_NEAR(MixServeTimesOf(setting, {8, 1, 1, 8, false}, 64, {}).communication,
              2 * (64 * row / 8) / 450e9, 1e-12);
  // Within one node, over its inner links.
  EXPECT_NEAR(MixServeTimesOf(setting, {8}, 64, {}).communication,
              2 * (64. / 8 * 8 * row / 8 * 7) / 450e9, 1e-12);
}

TEST(MixServe, TheQueueIsOneServerAndThroughputCountsPrompts) {
  const Setting setting = On("deepseek-v3", "H100");
  const WholeConfiguration how = {16};
  const MixServeTimes idle = MixServeTimesOf(setting, how, 64, {0, 1000, 250});
  EXPECT_EQ(idle.wait, 0);
  EXPECT_GT(idle.first_token, 0);
  EXPECT_NEAR(idle.tokens_per_second, 64 * 1250 / (idle.first_token + 250 * idle.inter_token),
              1e-6);
  // At a utilisation of one half, the wait of eq. 7 is as long as a service time.
  const double half = 0.5 / idle.inter_token * 64 / 250;
  const MixServeTimes busy = MixServeTimesOf(setting, how, 64, {half, 1000, 250});
  EXPECT_NEAR(busy.wait, idle.inter_token, 1e-9);
  EXPECT_LT(busy.tokens_per_second, idle.tokens_per_second);
  EXPECT_TRUE(std::isinf(MixServeTimesOf(setting, how, 64, {2.1 * half, 1000, 250}).wait));
}

TEST(MixServe, OnlyCommunicationDiffersFromOurs) {
  const Setting setting = On("deepseek-v3", "H100");
  const WholeConfiguration how = {16};
  const WholeLayerTimes ours = TimesOfWholeLayer(setting, how, {64, 1024, 0, 0});
  const MixServeTimes theirs = MixServeTimesOf(setting, how, 64, {});
  EXPECT_NEAR(theirs.inter_token, 61 * (ours.attention + ours.experts + theirs.communication),
              1e-9);
  EXPECT_LT(theirs.communication, ours.exchange) << "links without a start or a hop";
}

}  // namespace
}  // namespace janus::controllers
