#include <gtest/gtest.h>

#include "proto/convert.h"
#include "tests/support/contains.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

std::vector<uint32_t> TokensOf(ServiceUnderTest& service) {
  TestGateway gateway(service.attention());
  gateway.Hello();
  gateway.Send(TestGateway::Submit(1, {1, 2, 3}, 5));
  const v1::RequestTokens tokens = gateway.ReadToTheEnd(1);
  gateway.Finish();
  return {tokens.tokens().begin(), tokens.tokens().end()};
}

// Whole workers behind gRPC; Prepare names the device.
TEST(TimedWorkers, ServeTheTokensOfTheirOwnModelAndReportWhatTheyStandFor) {
  ServiceUnderTest plain, timed;
  plain.Serve();
  *timed.config().mutable_timed() = ToProto(TimedDevice{"h200", "mixtral-8x22b", 4, 100});
  timed.Serve();
  const std::vector<uint32_t> want = TokensOf(plain);
  EXPECT_EQ(want.size(), 5u);
  EXPECT_EQ(TokensOf(timed), want);
  for (ServedWorker* const one : {&timed.attention(), &timed.experts()}) {
    const InstanceStatistics statistics = one->worker().statistics();
    EXPECT_EQ(statistics.timed, "H200 as mixtral-8x22b, scale 4, time scale 100");
    EXPECT_GT(statistics.timed_waits, 0u);
  }
  EXPECT_EQ(plain.attention().worker().statistics().timed, "");
}

TEST(TimedWorkers, RefuseADeviceThatCannotBe) {
  ServiceUnderTest service;
  *service.config().mutable_timed() = ToProto(TimedDevice{"B300", "mixtral-8x22b", 4, 100});
  const Status refused = service.PrepareAttention([](const PrepareProgress&) { return true; });
  EXPECT_TRUE(Contains(refused.message(), "no hardware 'B300'")) << refused.ToString();
}

}  // namespace
}  // namespace janus::dataplane
