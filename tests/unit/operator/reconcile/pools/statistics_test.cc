#include "operator/reconcile/pools/statistics.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace janus::control {
namespace {

InstanceStatistics Instance(Role role, int rank, uint64_t epoch, uint64_t tokens) {
  InstanceStatistics out;
  out.role = role;
  out.rank = Rank{rank};
  out.epoch = epoch;
  out.tokens = tokens;
  return out;
}

GatewayCounts Gateway(const std::string& id, uint64_t reports, uint64_t arrived) {
  GatewayCounts out;
  out.gateway_id = id;
  out.reports = reports;
  out.arrived = arrived;
  return out;
}

std::shared_ptr<const Statistics> Pool(uint64_t epoch, std::vector<InstanceStatistics> instances,
                                       std::vector<GatewayCounts> gateways) {
  Statistics out;
  out.epoch = epoch;
  out.instances = std::move(instances);
  out.gateways.gateways = std::move(gateways);
  return std::make_shared<const Statistics>(std::move(out));
}

TEST(JoinPools, RanksGoOnFromPoolToPool) {
  const std::vector<std::shared_ptr<const Statistics>> pools = {
      Pool(7,
           {Instance(Role::kAttention, 0, 7, 1), Instance(Role::kAttention, 1, 7, 2),
            Instance(Role::kExperts, 0, 7, 0)},
           {}),
      Pool(4, {Instance(Role::kAttention, 0, 4, 3), Instance(Role::kExperts, 0, 4, 0)}, {})};
  const Statistics all = JoinPools(pools);
  std::vector<std::pair<int, uint64_t>> attention;
  for (const InstanceStatistics& one : all.instances) {
    EXPECT_EQ(one.epoch, all.epoch);
    if (one.role == Role::kAttention) attention.emplace_back(one.rank.value, one.tokens);
  }
  EXPECT_EQ(attention, (std::vector<std::pair<int, uint64_t>>{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(all.instances.back().rank.value, 1) << "the second expert instance of all";
}

TEST(JoinPools, AnInstanceOutsideItsPoolsEpochStaysOutside) {
  const std::vector<std::shared_ptr<const Statistics>> pools = {
      Pool(7, {Instance(Role::kAttention, 0, 6, 1)}, {}),
      Pool(4, {Instance(Role::kAttention, 0, 4, 3)}, {})};
  const Statistics all = JoinPools(pools);
  EXPECT_NE(all.instances[0].epoch, all.epoch);
  EXPECT_EQ(all.instances[1].epoch, all.epoch);
  EXPECT_EQ(all.instances[1].rank.value, 0);
}

TEST(JoinPools, TheEpochIsAnotherOneWheneverAPoolHasAnother) {
  const auto first = Pool(7, {}, {}), first_later = Pool(8, {}, {}), second = Pool(4, {}, {});
  EXPECT_NE(JoinPools(std::vector{first, second}).epoch,
            JoinPools(std::vector{first_later, second}).epoch);
}

TEST(JoinPools, AGatewayThatReportsToAllCountsOnce) {
  const std::vector<std::shared_ptr<const Statistics>> pools = {
      Pool(1, {}, {Gateway("g", 3, 30), Gateway("h", 1, 5)}), Pool(1, {}, {Gateway("g", 4, 40)})};
  const Statistics all = JoinPools(pools);
  ASSERT_EQ(all.gateways.gateways.size(), 2u);
  uint64_t arrived = 0;
  for (const GatewayCounts& one : all.gateways.gateways) arrived += one.arrived;
  EXPECT_EQ(arrived, 45u);
}

}  // namespace
}  // namespace janus::control
