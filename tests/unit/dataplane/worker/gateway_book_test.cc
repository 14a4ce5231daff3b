#include "dataplane/worker/gateway_book.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/fake_clock.h"

namespace janus::dataplane {
namespace {

class GatewayBookTest : public testing::Test {
 protected:
  static GatewayCounts Report(uint64_t reports, uint64_t arrived, double age = 0) {
    GatewayCounts counts;
    counts.reports = reports;
    counts.arrived = arrived;
    counts.age_seconds = age;
    return counts;
  }
  // Of one gateway; a default one if it is not known.
  GatewayCounts Of(const std::string& id) const {
    for (const GatewayCounts& one : book_.Read().gateways) {
      if (one.gateway_id == id) return one;
    }
    return {};
  }

  FakeClock clock_;
  GatewayBook book_{clock_};
};

TEST_F(GatewayBookTest, AGatewayThatHasNotReportedIsAttachedAndSaysNothing) {
  book_.Attach(1, "g");
  EXPECT_TRUE(Of("g").is_attached);
  EXPECT_EQ(Of("g").reports, 0U);
  EXPECT_EQ(Of("g").age_seconds, 0);
}

TEST_F(GatewayBookTest, KeepsTheNewestReportOfEachGateway) {
  book_.Attach(1, "a");
  book_.Attach(2, "b");
  book_.Take(1, Report(2, 20));
  book_.Take(2, Report(1, 7));
  book_.Take(1, Report(1, 10));
  book_.Take(1, Report(2, 99));
  EXPECT_EQ(Of("a").arrived, 20U) << "an older report, and one sent twice";
  EXPECT_EQ(Of("b").arrived, 7U);
}

TEST_F(GatewayBookTest, AStreamThatIsLostAndDialledAgainCountsOn) {
  book_.Attach(1, "g");
  book_.Take(1, Report(5, 50));
  book_.Attach(2, "g");  // before the old one's end was noticed
  book_.Detach(1);
  EXPECT_TRUE(Of("g").is_attached);
  book_.Take(2, Report(6, 60));
  EXPECT_EQ(Of("g").arrived, 60U);
  EXPECT_EQ(book_.Read().gateways.size(), 1U);
}

TEST_F(GatewayBookTest, WhatAGatewayCountedBeforeItLeftIsKeptForTenMinutes) {
  book_.Attach(1, "g");
  GatewayCounts counts = Report(5, 50, 100);
  counts.waiting = 3;
  counts.waiting_prompt_tokens = 30;
  counts.oldest_waiting_seconds = 1;
  book_.Take(1, counts);
  clock_.Advance(Seconds(2));
  EXPECT_EQ(Of("g").waiting, 3U);
  EXPECT_NEAR(Of("g").oldest_waiting_seconds, 3, 1e-6);
  EXPECT_NEAR(Of("g").age_seconds, 102, 1e-6);
  book_.Detach(1);
  clock_.Advance(Seconds(599));
  EXPECT_EQ(Of("g").arrived, 50U);
  EXPECT_FALSE(Of("g").is_attached);
  EXPECT_EQ(Of("g").waiting, 0U) << "its requests went with it";
  EXPECT_NEAR(Of("g").age_seconds, 701, 1e-6);
  clock_.Advance(Seconds(2));
  EXPECT_TRUE(book_.Read().gateways.empty());
}

TEST_F(GatewayBookTest, BeyondTheBoundAGatewayIsCountedAsLeftOutUntilThereIsRoom) {
  for (uint64_t i = 0; i < GatewayReports::kMost; ++i) {
    book_.Attach(i, "g" + std::to_string(i));
  }
  book_.Attach(1000, "late");
  book_.Take(1000, Report(1, 5));
  EXPECT_EQ(book_.Read().gateways.size(), GatewayReports::kMost);
  EXPECT_EQ(book_.Read().left_out, 1U);
  EXPECT_EQ(Of("late").reports, 0U);
  book_.Detach(7);  // which has gone, and gives its place up at once
  book_.Take(1000, Report(2, 6));
  EXPECT_EQ(book_.Read().left_out, 0U);
  EXPECT_EQ(Of("late").arrived, 6U);
  EXPECT_FALSE(Of("g7").is_attached);
  book_.Detach(1000);
  book_.Detach(1000);
  book_.Take(1000, Report(9, 90));
  EXPECT_EQ(Of("late").arrived, 6U) << "the stream has ended";
}

}  // namespace
}  // namespace janus::dataplane
