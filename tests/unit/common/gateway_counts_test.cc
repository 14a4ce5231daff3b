#include "common/gateway_counts.h"

#include <gtest/gtest.h>

#include <string>

namespace janus {
namespace {

GatewayCounts Gateway(const std::string& id, uint64_t reports, bool is_attached) {
  GatewayCounts one;
  one.gateway_id = id;
  one.reports = reports;
  one.arrived = 10 * reports;
  one.is_attached = is_attached;
  return one;
}

TEST(JoinGateways, TheNewerReportOfAGatewayStays) {
  GatewayReports all;
  JoinGateways({{Gateway("a", 5, true), Gateway("b", 2, true)}, 0}, all);
  JoinGateways({{Gateway("b", 3, true), Gateway("a", 4, true)}, 0}, all);
  ASSERT_EQ(all.gateways.size(), 2U);
  EXPECT_EQ(all.gateways[0].arrived, 50U);
  EXPECT_EQ(all.gateways[1].arrived, 30U);
}

TEST(JoinGateways, AGatewayIsAttachedIfAnyInstanceHasItsStream) {
  GatewayReports all;
  JoinGateways({{Gateway("a", 5, false)}, 0}, all);
  JoinGateways({{Gateway("a", 4, true)}, 0}, all);
  EXPECT_EQ(all.gateways[0].arrived, 50U);
  EXPECT_TRUE(all.gateways[0].is_attached) << "an older report, and a stream that lives";
}

TEST(JoinGateways, GatewaysThatHaveGoneMakeRoomForAttachedOnes) {
  GatewayReports all;
  for (size_t i = 0; i < GatewayReports::kMost; ++i) {
    JoinGateways({{Gateway("gone-" + std::to_string(i), 1, false)}, 0}, all);
  }
  JoinGateways({{Gateway("here", 1, true)}, 0}, all);
  EXPECT_EQ(all.gateways.size(), GatewayReports::kMost);
  EXPECT_EQ(all.gateways[0].gateway_id, "here");
  EXPECT_EQ(all.left_out, 0U);
  for (size_t i = 0; i < GatewayReports::kMost; ++i) {
    JoinGateways({{Gateway("more-" + std::to_string(i), 1, true)}, 0}, all);
  }
  EXPECT_EQ(all.gateways.size(), GatewayReports::kMost);
  EXPECT_EQ(all.left_out, 1U);
}

}  // namespace
}  // namespace janus
