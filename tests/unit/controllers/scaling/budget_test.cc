#include "controllers/scaling/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace janus::controllers {
namespace {

ScalingPolicy Policy() {
  ScalingPolicy policy;
  policy.tpot.seconds = 0.1;
  return policy;
}

ErrorBudget Live(ErrorBudget budget, double hours, double attained, bool may_grow = true) {
  for (int i = 0; i < hours * 60; ++i) {
    budget = After(budget, {1000, 1000 * attained}, 60, Policy(), may_grow);
  }
  return budget;
}

// A service that halves its misses with every step of caution, by day and by night. Misses follow a
// decision after a quarter of an hour.
TEST(ErrorBudget, SettlesWhereAsManyAttainAsAreAskedFor) {
  for (const double missed_without : {0.1, 0.05, 0.01}) {
    std::mt19937 random(31);
    ErrorBudget budget;
    std::vector<double> cautions(15, 0);
    double all = 0, attained = 0;
    constexpr int kMinutes = 14 * 24 * 60;
    for (int i = 0; i < kMinutes; ++i) {
      const double requests = 1000 * (1.2 + std::sin(i / 229.0));
      // All misses fall into one interval of ten.
      const double missed =
          random() % 10 == 0 ? 10 * missed_without * std::exp2(-cautions[cautions.size() - 15]) : 0;
      const Ended ended = {requests, requests * (1 - std::min(missed, 1.0))};
      budget = After(budget, ended, 60, Policy(), true);
      cautions.push_back(budget.caution);
      if (i < kMinutes / 2) continue;
      all += ended.requests;
      attained += ended.attained;
      EXPECT_NEAR(budget.caution, std::log2(missed_without / 0.045), 1) << "swings";
    }
    EXPECT_NEAR(attained / all, 0.955, 0.003) << missed_without;
  }
}

TEST(ErrorBudget, AReportOfNothingChangesNothing) {
  const ErrorBudget known = Live({}, 3, 0.9);
  const ErrorBudget later = After(known, {}, 60, Policy(), true);
  EXPECT_EQ(later.caution, known.caution);
  EXPECT_EQ(After({}, {}, 60, Policy(), true), ErrorBudget{}) << "nobody counts";
  EXPECT_EQ(After(known, {100, 0}, 0, Policy(), true), known) << "no time has passed";
}

TEST(ErrorBudget, StaysAsItIsWhereNineTenthsOfWhatMayBeMissedAre) {
  EXPECT_NEAR(Live({}, 48, 0.955).caution, 0, 1e-9);
  EXPECT_GT(Live({}, 48, 0.95).caution, 0.5) << "all of it is too much";
}

// The usual number of requests is a rate: intervals without any are part of it.
TEST(ErrorBudget, LearnsAsFastWhereRequestsEndInOneIntervalOfMany) {
  const double each = Live({}, 4, 1).caution;
  EXPECT_NEAR(each, -1, 0.01);
  for (const int seldom : {4, 10}) {
    ErrorBudget budget;
    for (int i = 0; i < 4 * 60; ++i) {
      const double requests = i % seldom == 0 ? 1000.0 * seldom : 0;
      budget = After(budget, {requests, requests}, 60, Policy(), true);
    }
    EXPECT_NEAR(budget.caution, each, 0.2) << seldom;
  }
}

TEST(ErrorBudget, IsBoundedAndLeavesItsBoundsAtOnce) {
  const ErrorBudget least = Live({}, 240, 1);
  EXPECT_EQ(least.caution, kLeastCaution);
  EXPECT_GT(Live(least, 0.1, 0.5).caution, kLeastCaution);
  const ErrorBudget most = Live({}, 240, 0);
  EXPECT_EQ(most.caution, kMostCaution);
  EXPECT_LT(Live(most, 0.1, 1).caution, kMostCaution);
}

TEST(ErrorBudget, AnHourOfMissesIsPaidForByTwentyOneWithoutAny) {
  const double after_misses = Live(Live({}, 24, 0.955), 0.1, 0).caution;
  EXPECT_GT(after_misses, 0.4) << "six minutes";
  EXPECT_NEAR(Live(Live(Live({}, 24, 0.955), 0.1, 0), 2.12, 1).caution, 0, 0.02);
}

TEST(ErrorBudget, AFloodAfterAQuietTimeIsOneBurst) {
  const ErrorBudget quiet = Live({}, 24, 0.955);
  const double flood = After(quiet, {1e6, 0}, 60, Policy(), true).caution;
  EXPECT_GT(flood, 0.5);
  EXPECT_LT(flood, kMostCaution);
}

TEST(ErrorBudget, DoesNotLearnFromMissesThatNothingMoreCouldPrevent) {
  EXPECT_EQ(Live({}, 10, 0, false).caution, 0);
  EXPECT_EQ(Live({}, 1, 1, false).caution, Live({}, 1, 1, true).caution);
}

TEST(ErrorBudget, MoreMissedNeverMeansLessInHand) {
  const ScalingPolicy policy = Policy();
  double last = 2;
  for (const double attained : {0.0, 0.5, 0.9, 0.94, 0.96, 1.0}) {
    const ErrorBudget budget = Live({}, 0.5, attained);
    EXPECT_LE(budget.caution, last) << attained;
    last = budget.caution;
  }
  double share = 0, aim = 1;
  for (double caution = kLeastCaution; caution <= kMostCaution; caution += 0.25) {
    const ErrorBudget budget = {caution, 1, 1};
    EXPECT_GT(ShareWithRoom(budget, policy), share);
    EXPECT_LT(AimOf(budget, policy), aim);
    EXPECT_LE(LeaveAt(budget, policy), 1);
    EXPECT_EQ(LeaveAt(budget, policy) == 1, caution <= 1);
    EXPECT_GE(LeaveAt(budget, policy), AimOf(budget, policy)) << "a move would be left at once";
    share = ShareWithRoom(budget, policy);
    aim = AimOf(budget, policy);
  }
  EXPECT_DOUBLE_EQ(LeaveAt({kMostCaution, 1, 1}, policy), aim);
  EXPECT_LT(share, 1);
  EXPECT_GE(aim, policy.aim / 2);
}

TEST(ErrorBudget, WithoutEvidenceThePolicyHoldsToTheDigit) {
  ScalingPolicy policy = Policy();
  for (const double share : {0.1, 0.33, 0.5, 0.77, 0.95}) {
    policy.aim = policy.tpot.percentile = share;
    EXPECT_EQ(AimOf({}, policy), share);
    EXPECT_EQ(LeaveAt({}, policy), 1);
    EXPECT_EQ(ShareWithRoom({}, policy), share);
    // 2^3 times as many may miss, up to all.
    EXPECT_NEAR(ShareWithRoom({kLeastCaution, 1, 1}, policy), std::max(1 - 8 * (1 - share), 0.0),
                1e-12);
  }
}

TEST(ErrorBudget, TheStricterOfTwoTargetsSaysHowManyMayMiss) {
  ScalingPolicy policy = Policy();
  policy.ttft = LatencyTarget{10, 0.99};
  EXPECT_GT(After({}, {1000, 980}, 60, policy, true).caution, 0);
  policy.ttft->percentile = 0.9;
  EXPECT_LT(After({}, {1000, 980}, 60, policy, true).caution, 0);
}

}  // namespace
}  // namespace janus::controllers
