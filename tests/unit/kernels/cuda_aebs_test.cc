#include "kernels/cuda/aebs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/support/random.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/random_placement.h"

namespace janus::kernels::cuda {
namespace {

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

// An array a few elements past a 64-byte boundary, with a pattern on both sides that must stay.
template <class T>
class Guarded {
 public:
  Guarded(size_t count, size_t offset)
      : bytes_(count * sizeof(T) + 2 * kGuard + 64 + offset * sizeof(T), kPattern), count_(count) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    begin_ = (64 - address % 64) % 64 + kGuard + offset * sizeof(T);
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  // Its elements, if nothing was written beside them.
  std::vector<T> Take(size_t count) {
    const size_t end = begin_ + count_ * sizeof(T);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (i >= begin_ && i < end) continue;
      EXPECT_EQ(bytes_[i], kPattern) << "byte " << i;
    }
    return {data(), data() + count};
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPattern = 0xA5;
  std::vector<uint8_t> bytes_;
  size_t count_;
  size_t begin_ = 0;
};

enum class Form { kFast, kFastOverBlocks, kPlain };

Result ByKernel(SchedulingPolicy policy, Form form, const LayerPlacement& placement,
                const std::vector<uint16_t>& ids, size_t ids_offset = 0,
                size_t replicas_offset = 0) {
  NextOrder();
  const auto experts = static_cast<size_t>(placement.experts);
  const auto instances = static_cast<size_t>(placement.instances);
  Guarded<uint16_t> of_ids(ids.size(), ids_offset);
  std::ranges::copy(ids, of_ids.data());
  Guarded<Replica> replicas(ids.size(), replicas_offset);
  Guarded<Replica> replica_of(experts, 0);
  Guarded<int32_t> load(instances, 0);
  Guarded<uint16_t> activated(experts, 0);
  Guarded<int32_t> num_activated(1, 0);
  const size_t words = (experts + 31) / 32;
  Guarded<uint32_t> partial(static_cast<size_t>(kCollectBlocks) * words, 0);
  const ScheduleExpertsArgs args{
      .policy = policy,
      .placement = PlacementView::Of(placement),
      .ids = of_ids.data(),
      .count = static_cast<int64_t>(ids.size()),
      .replicas = replicas.data(),
      .replica_of = replica_of.data(),
      .load = load.data(),
      .activated = activated.data(),
      .num_activated = num_activated.data(),
      .partial = form == Form::kFastOverBlocks ? partial.data() : nullptr,
      .form = form == Form::kPlain ? ScheduleForm::kPlain : ScheduleForm::kFast};
  const Status status = ScheduleExperts(Stream{.device = Device::kCuda}, args);
  EXPECT_TRUE(status.ok()) << status.ToString();
  partial.Take(0);
  const auto count = static_cast<size_t>(num_activated.Take(1)[0]);
  return {replicas.Take(ids.size()), replica_of.Take(experts), load.Take(instances),
          activated.Take(std::min(count, experts))};
}

struct Case {
  std::string name;
  SchedulingPolicy policy;
  Form form;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class ScheduleExpertsTest : public testing::TestWithParam<Case> {};

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
    const Result wanted = BySpecification(GetParam().policy, placement, ids);
    ASSERT_EQ(
        ByKernel(GetParam().policy, GetParam().form, placement, ids, random() % 16, random() % 4),
        wanted)
        << "round " << round;
    with_paths += wanted == BySpecification(SchedulingPolicy::kAebsGreedy, placement, ids) ? 0 : 1;
  }
  EXPECT_EQ(with_paths > 20, GetParam().policy == SchedulingPolicy::kAebs);
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
      ASSERT_EQ(ByKernel(GetParam().policy, GetParam().form, placement, ids),
                BySpecification(GetParam().policy, placement, ids));
    }
  }
}

// Loads of one, two and four words of instances, and one past each.
TEST_P(ScheduleExpertsTest, GivesTheSpecificationsResultAtEveryEdgeOfSlices) {
  std::mt19937_64 random(13);
  for (const int instances : {1, 31, 32, 33, 63, 64, 65, 96, 97, 128, 129}) {
    for (const int experts : {1, 32, 33, 512}) {
      const LayerPlacement placement =
          LayerPlacement::Of(RandomPlacement(experts, instances, 4 * experts, random), 0, experts);
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{9}, size_t{4096}}) {
        std::vector<uint16_t> ids(count);
        for (uint16_t& id : ids) {
          id = static_cast<uint16_t>(random() % static_cast<uint64_t>(experts));
        }
        ASSERT_EQ(ByKernel(GetParam().policy, GetParam().form, placement, ids, random() % 16,
                           random() % 4),
                  BySpecification(GetParam().policy, placement, ids))
            << experts << " experts on " << instances << " instances, " << count << " ids";
      }
    }
  }
}

// Just past what one block takes, ids and replicas at odd addresses too.
TEST_P(ScheduleExpertsTest, GivesTheSpecificationsResultWhereIdsAreSplitOverBlocks) {
  std::mt19937_64 random(14);
  const LayerPlacement placement =
      LayerPlacement::Of(RandomPlacement(512, 32, 256, random), 0, 512);
  for (const size_t offset : {size_t{0}, size_t{3}}) {
    std::vector<uint16_t> ids(static_cast<size_t>(kOneBlockIds) + 1 + offset);
    for (uint16_t& id : ids) id = static_cast<uint16_t>(random() % 300);
    ids.back() = 511;  // only here
    ASSERT_EQ(ByKernel(GetParam().policy, GetParam().form, placement, ids, offset, offset),
              BySpecification(GetParam().policy, placement, ids));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Both, ScheduleExpertsTest,
    testing::Values(Case{"Exact", SchedulingPolicy::kAebs, Form::kFast},
                    Case{"Greedy", SchedulingPolicy::kAebsGreedy, Form::kFast},
                    Case{"ExactOverBlocks", SchedulingPolicy::kAebs, Form::kFastOverBlocks},
                    Case{"GreedyOverBlocks", SchedulingPolicy::kAebsGreedy, Form::kFastOverBlocks},
                    Case{"ExactPlain", SchedulingPolicy::kAebs, Form::kPlain},
                    Case{"GreedyPlain", SchedulingPolicy::kAebsGreedy, Form::kPlain}),
    [](const auto& info) { return info.param.name; });

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
    for (const auto form : {Form::kFast, Form::kPlain}) {
      const Result result = ByKernel(policy, form, placement, {2, 3, 1, 0xFFFF, 0});
      EXPECT_EQ(result.replicas,
                (std::vector<Replica>{{1, 5}, Replica{}, Replica{}, Replica{}, {0, 4}}));
      EXPECT_EQ(result.load, (std::vector<int32_t>{1, 1}));
      EXPECT_EQ(result.activated, (std::vector<uint16_t>{0, 1, 2}));
    }
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
