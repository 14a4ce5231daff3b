#include "controllers/observe/gateway_totals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/contains.h"
#include "tests/support/random.h"

namespace janus::controllers {
namespace {

constexpr double kKeep = 300;

// A gateway that started at `began` and has since had `rate` requests a second of 10 tokens.
struct Traffic {
  std::string id;
  double began = 0;
  double rate = 0;

  GatewayCounts At(double time) const {
    GatewayCounts counts;
    counts.gateway_id = id;
    counts.is_attached = true;
    counts.age_seconds = time - began;
    counts.arrived = static_cast<uint64_t>(std::llround(rate * (time - began)));
    counts.reports = 1 + counts.arrived;
    counts.prompt_tokens = 10 * counts.arrived;
    counts.prompt_squares = 100 * counts.arrived;
    counts.finished = counts.arrived;
    counts.output_tokens = 5 * counts.finished;
    counts.latencies.Put({60, 20}, counts.finished);
    return counts;
  }
};

class GatewayTotalsTest : public testing::Test {
 protected:
  Status Look(double time, const std::vector<GatewayCounts>& gateways, uint64_t left_out = 0) {
    return Take({gateways, left_out}, time, kKeep, totals_);
  }
  double Rate(double seconds) const {
    const Recent recent = Over(totals_, seconds);
    return recent.totals.arrived / recent.seconds;
  }

  GatewayTotals totals_;
};

TEST_F(GatewayTotalsTest, ASteadyLoadHasTheSameRateOverAllWindows) {
  const Traffic a{"a", -5000, 2};
  const Traffic b{"b", -70, 1};
  for (double time = 0; time <= 600; time += 15) {
    ASSERT_TRUE(Look(time, {a.At(time), b.At(time)}).ok()) << time;
  }
  for (const double window : {15.0, 60.0, 300.0, 40.0}) {
    EXPECT_NEAR(Rate(window), 3, 1e-9) << window;
    EXPECT_NEAR(Over(totals_, window).seconds, window, 1e-9);
  }
  EXPECT_NEAR(Over(totals_, 60).totals.prompt_squares, 18000, 1e-6);
  EXPECT_NEAR(totals_.ended, 1800, 1e-9) << "what came before the first look is not among it";
  EXPECT_EQ(totals_.latencies.total(), 1800U);
}

TEST_F(GatewayTotalsTest, AWindowCoversNoMoreThanTheLooksDo) {
  const Traffic a{"a", -5000, 2};
  ASSERT_TRUE(Look(0, {a.At(0)}).ok());
  ASSERT_TRUE(Look(20, {a.At(20)}).ok());
  EXPECT_NEAR(Over(totals_, 300).seconds, 20, 1e-9);
  EXPECT_NEAR(Rate(300), 2, 1e-9);
}

TEST_F(GatewayTotalsTest, ARestartOfAGatewayIsNoSpikeAndLosesNothing) {
  const Traffic before{"a-1", -5000, 2};
  const Traffic after{"a-2", 33, 2};  // it was down for a moment
  for (double time = 0; time <= 120; time += 15) {
    std::vector<GatewayCounts> told = {before.At(std::min(time, 33.0))};
    told[0].is_attached = time < 33;
    if (time >= 33) told.push_back(after.At(time));
    ASSERT_TRUE(Look(time, told).ok()) << time;
    if (time == 0) continue;
    EXPECT_NEAR(Rate(15), 2, 0.05) << time;
  }
  EXPECT_NEAR(Over(totals_, 120).totals.arrived, 240, 1e-6);
}

TEST_F(GatewayTotalsTest, WhatALookMissedIsSpreadOverTheTimeThatItWasMissed) {
  const Traffic a{"a", -5000, 2};
  const Traffic b{"b", -5000, 1};
  for (double time = 0; time <= 120; time += 15) {
    std::vector<GatewayCounts> told = {a.At(time)};
    if (time <= 30 || time >= 120) told.push_back(b.At(time));  // its streams were down
    ASSERT_TRUE(Look(time, told).ok());
  }
  EXPECT_NEAR(Rate(15), 3, 1e-9);
  EXPECT_NEAR(Rate(120), 3, 1e-9);
}

TEST_F(GatewayTotalsTest, LooksThatFailedLeaveNoSpike) {
  const Traffic a{"a", -5000, 2};
  for (const double time : {0.0, 15.0, 120.0}) ASSERT_TRUE(Look(time, {a.At(time)}).ok());
  EXPECT_NEAR(Rate(15), 2, 1e-9);
}

TEST_F(GatewayTotalsTest, AnOldGatewaySeenForTheFirstTimeNeedsASecondLook) {
  const Traffic a{"a", -5000, 2};
  const Traffic hidden{"hidden", -9000, 4};
  ASSERT_TRUE(Look(0, {a.At(0)}).ok());
  ASSERT_TRUE(Look(15, {a.At(15)}).ok());
  const Status missing = Look(30, {a.At(30), hidden.At(30)});
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(missing.message(), "gateway hidden: it has counted for 9030 s"));
  ASSERT_TRUE(Look(45, {a.At(45), hidden.At(45)}).ok());
  EXPECT_NEAR(Rate(15), 6, 1e-9) << "not 36,000 requests at once";
}

TEST_F(GatewayTotalsTest, AGatewayThatHasNotReportedIsNamed) {
  const Traffic a{"a", -5000, 2};
  GatewayCounts silent;
  silent.gateway_id = "old";
  silent.is_attached = true;
  const Status missing = Look(0, {a.At(0), silent});
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(missing.message(), "gateway old: it has not reported"));
  silent.is_attached = false;
  EXPECT_TRUE(Look(15, {a.At(15), silent}).ok()) << "it has gone";
}

TEST_F(GatewayTotalsTest, NoGatewayIsNoData) {
  const Traffic a{"a", -5000, 2};
  EXPECT_TRUE(Contains(Look(0, {}).message(), "no gateway is attached"));
  GatewayCounts gone = a.At(15);
  gone.is_attached = false;
  EXPECT_EQ(Look(15, {gone}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Look(30, {a.At(30)}, 3).code(), StatusCode::kUnavailable) << "some are left out";
}

TEST_F(GatewayTotalsTest, AnOlderReportThanTheLastOneChangesNothing) {
  const Traffic a{"a", -5000, 2};
  ASSERT_TRUE(Look(0, {a.At(0)}).ok());
  ASSERT_TRUE(Look(15, {a.At(15)}).ok());
  ASSERT_TRUE(Look(30, {a.At(5)}).ok()) << "the member with the newest did not answer";
  ASSERT_TRUE(Look(45, {a.At(45)}).ok());
  EXPECT_NEAR(Over(totals_, 45).totals.arrived, 90, 1e-9);
}

// Shares of an interval are rounded, so the same sum can come out a little smaller.
TEST_F(GatewayTotalsTest, NothingThatComesIsNeverLessThanNothing) {
  std::mt19937_64 random(TestSeed());
  std::uniform_real_distribution<double> draw(0.1, 9.7);
  const Traffic a{"a", -5000, 2.3};
  double time = 0;
  GatewayCounts last = a.At(time);
  for (int i = 0; i < 400; ++i) {
    // A report that is a little old is spread over the time that it is of.
    if (i < 60) last = a.At(time - 0.01 * draw(random));
    ASSERT_TRUE(Look(time, {last}).ok());
    time += draw(random);
    if (i == 0) continue;
    for (const double window : {15, 60, 300}) {
      const GatewayTotals::Totals came = Over(totals_, window).totals;
      EXPECT_GE(came.arrived, 0) << time;
      EXPECT_GE(came.prompt_squares, 0) << time;
    }
  }
}

TEST_F(GatewayTotalsTest, NumbersThatCannotBeAreNamedAndLeftOut) {
  const Traffic a{"a", -5000, 2};
  double time = 0;
  ASSERT_TRUE(Look(0, {a.At(0)}).ok());
  // Then the counts are sound again.
  const auto refused = [&](auto&& damage) {
    GatewayCounts counts = a.At(time += 15);
    damage(counts);
    const Status status = Look(time, {counts});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    time += 15;
    (void)Look(time, {a.At(time)});
    time += 15;
    EXPECT_TRUE(Look(time, {a.At(time)}).ok()) << status.message();
    EXPECT_NEAR(Rate(15), 2, 1e-9) << status.message();
    return status.message();
  };
  EXPECT_TRUE(Contains(refused([](GatewayCounts& c) { c.prompt_tokens = UINT64_MAX; }),
                       "gateway a: prompt_tokens went from 100000 to 18446744073709551615"));
  EXPECT_TRUE(Contains(refused([](GatewayCounts& c) { c.arrived = 3; }), "arrived went from"));
  EXPECT_TRUE(Contains(refused([](GatewayCounts& c) { c.age_seconds = NAN; }), "age_seconds"));
  EXPECT_TRUE(Contains(refused([](GatewayCounts& c) {
                         c.oldest_waiting_seconds = std::numeric_limits<double>::infinity();
                       }),
                       "oldest_waiting_seconds"));
  EXPECT_TRUE(Contains(refused([](GatewayCounts& c) { c.waiting = UINT64_MAX; }), "waiting"));
  EXPECT_TRUE(Contains(refused([](GatewayCounts& c) { c.latencies = {}; }), "latencies"));
  EXPECT_LE(totals_.ended, 2 * time) << "nothing is counted twice";
  EXPECT_EQ(static_cast<double>(totals_.latencies.total()), totals_.ended);
}

TEST_F(GatewayTotalsTest, RemembersNoMoreThanItsBounds) {
  const Traffic a{"a", -5000, 2};
  for (int i = 0; i < 5000; ++i) {
    const double time = 0.3 * i;
    Traffic other{"g" + std::to_string(i), time, 0};
    ASSERT_TRUE(Look(time, {a.At(time), other.At(time)}).ok());
  }
  EXPECT_LE(totals_.samples.size(), GatewayTotals::kMostSamples);
  EXPECT_LE(totals_.known.size(), GatewayTotals::kMostKnown);
  EXPECT_NEAR(Rate(300), 2, 0.01);
  EXPECT_NEAR(Over(totals_, 300).seconds, 300, 1e-6);
}

}  // namespace
}  // namespace janus::controllers
