#include "dataplane/gateway/pool_members.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace janus::gateway {
namespace {

using Addresses = std::vector<std::string>;

struct PoolMembersTest : testing::Test {
  MetricRegistry registry;
  GatewayMetrics metrics{registry, "model"};
  std::vector<Addresses> told;
  PoolMembers pools{[this](const Addresses& addresses) { told.push_back(addresses); }, metrics};
};

TEST_F(PoolMembersTest, AllPoolsTogetherGetTheRequests) {
  pools.Set(2, {5, {"c"}});
  pools.Set(1, {3, {"a", "b"}});
  EXPECT_EQ(told, (std::vector<Addresses>{{"c"}, {"a", "b", "c"}}));
  EXPECT_EQ(metrics.pools.value(), 2);
  EXPECT_EQ(metrics.topology_epoch.value(), 5);
}

TEST_F(PoolMembersTest, ANewTopologyOfAPoolLeavesTheOthers) {
  pools.Set(1, {3, {"a", "b"}});
  pools.Set(2, {5, {"c"}});
  pools.Set(1, {4, {"b", "d"}});
  EXPECT_EQ(told.back(), (Addresses{"b", "d", "c"}));
}

TEST_F(PoolMembersTest, AForgottenPoolHasNoInstances) {
  pools.Set(1, {3, {"a"}});
  pools.Set(2, {5, {"c"}});
  pools.Set(2, {});
  EXPECT_EQ(told.back(), (Addresses{"a"}));
  EXPECT_EQ(metrics.pools.value(), 1);
  EXPECT_EQ(metrics.topology_epoch.value(), 3);
  pools.Set(1, {});
  EXPECT_EQ(told.back(), Addresses{});
  EXPECT_EQ(metrics.topology_epoch.value(), 3) << "an epoch was known before";
}

TEST(MembersOfPool, TheMarkBecomesThePoolsNumber) {
  EXPECT_EQ(MembersOfPool({"chat-pool-{pool}:9000", "unix:/{pool}/members-{pool}", "b:1"}, 3),
            (Addresses{"chat-pool-3:9000", "unix:/3/members-3", "b:1"}));
}

}  // namespace
}  // namespace janus::gateway
