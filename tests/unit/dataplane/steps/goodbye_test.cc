#include "dataplane/steps/goodbye.h"

#include <gtest/gtest.h>

#include <thread>

#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/loopback.h"
#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

constexpr uint64_t kEpoch = 3;
constexpr Seconds kNoPatience{0.0};

class GoodbyeTest : public testing::Test {
 protected:
  GoodbyeTest() {
    ExchangeShape shape;
    shape.hidden = 4;
    shape.top_k = 1;
    shape.max_rows = 2;
    shape.m = 2;
    shape.n = 1;
    LoopbackNetwork network(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}));
    first_ = network.Connect({Role::kAttention, Rank{0}}, {});
    second_ = network.Connect({Role::kAttention, Rank{1}}, {});
    expert_ = network.Connect({Role::kExperts, Rank{0}}, {});
  }
  Status Judge(Transport& transport, const std::stop_source& stop, Seconds patience) {
    return JudgeLoss(Unavailable("gone"), transport, std::nullopt, stop.get_token(),
                     departing_.get_token(), patience);
  }

  std::stop_source departing_;
  std::unique_ptr<Transport> first_, second_, expert_;
};

TEST_F(GoodbyeTest, ALossWithoutGoodbyeIsALossAtOnceEvenWhenStopped) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Judge(*second_, stop, Seconds(3600.0)).message(), "gone");
}

TEST_F(GoodbyeTest, ReachesEveryPeerWhoThenWaitsForItsOwnStop) {
  SayGoodbye(*first_, kEpoch);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(Judge(*second_, stop, Seconds(3600.0)).ok());
  EXPECT_TRUE(Judge(*expert_, stop, Seconds(3600.0)).ok());
}

TEST_F(GoodbyeTest, WhoDepartsItselfEndsWithoutAWord) {
  SayGoodbye(*first_, kEpoch);
  departing_.request_stop();
  EXPECT_TRUE(Judge(*second_, std::stop_source(), Seconds(3600.0)).ok());
  std::stop_source later;
  const std::jthread departs([&] { later.request_stop(); });
  EXPECT_TRUE(
      JudgeLoss(Unavailable("gone"), *expert_, std::nullopt, {}, later.get_token(), Seconds(3600.0))
          .ok());
}

TEST_F(GoodbyeTest, OfAnExpertInstanceReachesTheAttentionInstances) {
  SayGoodbye(*expert_, kEpoch);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(Judge(*first_, stop, Seconds(3600.0)).ok());
  EXPECT_TRUE(Judge(*second_, stop, Seconds(3600.0)).ok());
}

TEST_F(GoodbyeTest, WhoIsNotStoppedAfterAGoodbyeNamesWhoLeft) {
  SayGoodbye(*first_, kEpoch);
  const Status judged = Judge(*second_, std::stop_source(), kNoPatience);
  EXPECT_EQ(judged.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(judged.message(), "attention 0 was stopped"));
}

TEST_F(GoodbyeTest, ComesBehindWhateverElseIsUnread) {
  const Header demand = MakeHeader(MessageKind::kDemand, RoundKey{}, 1, 1);
  const Demand payload;
  ASSERT_TRUE(
      second_->Send({Role::kAttention, Rank{0}}, demand, std::as_bytes(std::span(&payload, 1)))
          .ok());
  SayGoodbye(*second_, kEpoch);
  EXPECT_TRUE(Contains(Judge(*first_, std::stop_source(), kNoPatience).message(), "attention 1"));
}

TEST_F(GoodbyeTest, AnotherErrorStaysWhatItIs) {
  SayGoodbye(*first_, kEpoch);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      JudgeLoss(Internal("broken"), *second_, std::nullopt, stop.get_token(), {}, kNoPatience),
      Internal("broken"));
  EXPECT_TRUE(
      JudgeLoss(OkStatus(), *second_, std::nullopt, stop.get_token(), {}, kNoPatience).ok());
}

}  // namespace
}  // namespace janus::dataplane
