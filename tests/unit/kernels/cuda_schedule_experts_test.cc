#include "kernels/cuda/schedule_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/random.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels::cuda {
namespace {

// Instances (unequal slots, some of them empty) with 1..n replicas of each of E experts, crowded on
// few instances every other time.
Placement RandomPlacement(int experts, int instances, int extra, std::mt19937_64& random) {
  std::vector<std::vector<uint16_t>> of(static_cast<size_t>(instances));
  const bool skewed = random() % 2 == 0;
  const auto draw = [&] { return random() % static_cast<uint64_t>(instances); };
  const auto place = [&](int expert) {
    auto& list = of[skewed ? std::min(draw(), draw()) : draw()];
    const auto e = static_cast<uint16_t>(expert);
    if (std::ranges::find(list, e) == list.end()) list.push_back(e);
  };
  for (int e = 0; e < experts; ++e) place(e);
  for (int i = 0; i < extra; ++i)
    place(static_cast<int>(random() % static_cast<uint64_t>(experts)));
  Placement placement;
  placement.layers = 1;
  for (auto& list : of) {
    for (uint64_t empty = random() % 3; empty > 0; --empty) list.push_back(Placement::kEmpty);
    std::ranges::shuffle(list, random);
    placement.slots_of_instance.push_back(static_cast<int>(list.size()));
    placement.expert_of.insert(placement.expert_of.end(), list.begin(), list.end());
  }
  return placement;
}

// Everything a call gives.
struct Result {
  std::vector<Replica> replicas;
  std::vector<Replica> replica_of;
  std::vector<int32_t> load;
  std::vector<uint16_t> activated;
  friend bool operator==(const Result&, const Result&) = default;
};

Result BySpecification(SchedulingPolicy policy, const LayerPlacement& placement,
                       const std::vector<uint16_t>& ids) {
  AebsWorkspace work(placement.experts, placement.instances);
  Result result;
  result.replicas.resize(ids.size());
  ScheduleActivatedExperts(policy, placement, ids, work, result.replicas);
  result.replica_of.assign(work.replica_of().begin(), work.replica_of().end());
  result.load.assign(work.load().begin(), work.load().end());
  result.activated.assign(work.activated().begin(), work.activated().end());
  return result;
}

Result ByKernel(SchedulingPolicy policy, const LayerPlacement& placement,
                const std::vector<uint16_t>& ids) {
  NextOrder();
  Result result;
  result.replicas.resize(ids.size());
  result.replica_of.resize(static_cast<size_t>(placement.experts));
  result.load.assign(static_cast<size_t>(placement.instances), -7);
  result.activated.resize(static_cast<size_t>(placement.experts));
  std::vector<int32_t> num_activated(1, -1);
  const Status status =
      ScheduleExperts(Stream{.device = Device::kCuda}, {.policy = policy,
                                                        .placement = PlacementView::Of(placement),
                                                        .ids = ids.data(),
                                                        .count = static_cast<int64_t>(ids.size()),
                                                        .replicas = result.replicas.data(),
                                                        .replica_of = result.replica_of.data(),
                                                        .load = result.load.data(),
                                                        .activated = result.activated.data(),
                                                        .num_activated = num_activated.data()});
  EXPECT_TRUE(status.ok()) << status.ToString();
  result.activated.resize(static_cast<size_t>(num_activated[0]));
  return result;
}

class ScheduleExpertsTest : public testing::TestWithParam<SchedulingPolicy> {};

TEST_P(ScheduleExpertsTest, GivesTheSpecificationsResultInEveryOrderOfThreads) {
  std::mt19937_64 random(11);
  int with_paths = 0;
  for (int round = 0; round < (kSanitized ? 150 : 1500); ++round) {
    const int experts = 1 + static_cast<int>(random() % (round % 10 == 0 ? 700 : 80));
    const int instances = 1 + static_cast<int>(random() % (round % 7 == 0 ? 150 : 20));
    const int extra = static_cast<int>(random() % static_cast<uint64_t>(2 * experts));
    const LayerPlacement placement =
        LayerPlacement::Of(RandomPlacement(experts, instances, extra, random), 0, experts);
    std::vector<uint16_t> ids(random() % 600);
    const uint64_t spread = 1 + random() % static_cast<uint64_t>(experts);
    for (uint16_t& id : ids) id = static_cast<uint16_t>(random() % spread);
    const Result wanted = BySpecification(GetParam(), placement, ids);
    ASSERT_EQ(ByKernel(GetParam(), placement, ids), wanted) << "round " << round;
    with_paths += wanted == BySpecification(SchedulingPolicy::kAebsGreedy, placement, ids) ? 0 : 1;
  }
  EXPECT_EQ(with_paths > 20, GetParam() == SchedulingPolicy::kAebs);
}

// The paper's shape: DeepSeek-V3's experts, 512 rows, slots for half as many replicas again.
TEST_P(ScheduleExpertsTest, GivesTheSpecificationsResultAtAModelsSize) {
  std::mt19937_64 random(12);
  for (const int instances : {16, 32}) {
    const LayerPlacement placement =
        LayerPlacement::Of(RandomPlacement(256, instances, 128, random), 0, 256);
    for (const size_t count : {size_t{64} * 8, size_t{512} * 8, size_t{4097} * 8}) {
      std::vector<uint16_t> ids(count);
      for (uint16_t& id : ids) id = static_cast<uint16_t>(random() % 256);
      ASSERT_EQ(ByKernel(GetParam(), placement, ids), BySpecification(GetParam(), placement, ids));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ScheduleExpertsTest,
                         testing::Values(SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy),
                         [](const auto& info) {
                           return info.param == SchedulingPolicy::kAebs ? "Exact" : "Greedy";
                         });

TEST(ScheduleExperts, IdsOfNoExpertAndExpertsWithoutAReplicaAreNowhere) {
  LayerPlacement placement;
  placement.experts = 3;
  placement.instances = 2;
  placement.mask_words = 1;
  placement.first = {0, 1, 1, 2};  // expert 1 has none
  placement.replicas = {{0, 4}, {1, 5}};
  placement.hosts = {1, 0, 2};
  placement.by_replicas = {1, 0, 2};
  for (const auto policy : {SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy}) {
    const Result result = ByKernel(policy, placement, {2, 3, 1, 0xFFFF, 0});
    EXPECT_EQ(result.replicas,
              (std::vector<Replica>{{1, 5}, Replica{}, Replica{}, Replica{}, {0, 4}}));
    EXPECT_EQ(result.load, (std::vector<int32_t>{1, 1}));
    EXPECT_EQ(result.activated, (std::vector<uint16_t>{0, 1, 2}));
  }
}

TEST(ScheduleExperts, RefusesNullAndMoreThanABlockHolds) {
  ScheduleExpertsArgs args;
  args.placement.experts = 4096;
  args.placement.instances = 1024;
  args.placement.mask_words = 16;
  EXPECT_EQ(ScheduleExperts({}, args).message(), "ScheduleExperts: placement.first is null");
  std::vector<uint64_t> any(8);
  args.placement.first = reinterpret_cast<const int32_t*>(any.data());
  args.placement.replicas = reinterpret_cast<const Replica*>(any.data());
  args.placement.hosts = any.data();
  args.placement.by_replicas = reinterpret_cast<const uint16_t*>(any.data());
  args.replica_of = reinterpret_cast<Replica*>(any.data());
  args.load = reinterpret_cast<int32_t*>(any.data());
  args.activated = reinterpret_cast<uint16_t*>(any.data());
  args.num_activated = reinterpret_cast<int32_t*>(any.data());
  EXPECT_NE(ScheduleExperts({}, args).message().find("shared memory"), std::string::npos);
}

}  // namespace
}  // namespace janus::kernels::cuda
