// Rounds computed by expert instances on devices. Every (row, top-k slot) is computed once, and has
// the bits that it has on one instance that starts each launch anew. That holds for any senders and
// any placement, whether the device scheduled the round, the host did, or the host corrected the
// device.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <thread>
#include <tuple>

#include "dataplane/experts/expert_layers.h"
#include "dataplane/weights/place_weights.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::dataplane {
namespace {

constexpr int kSenders = 2;
constexpr int kMostRows = 12;  // of a sender
constexpr kernels::PinnedRing kRing{4096, 4};

using Bytes = std::vector<std::byte>;
// By sender, row and top-k slot.
using Contributions = std::map<std::tuple<int, int, int>, Bytes>;

// One instance on a separate device.
class Instance {
 public:
  Instance(const HeldModel& held, const Topology& topology, int rank,
           const ExpertLayersOptions& options)
      : held_(held), share_(held.Shares(topology.placement)[static_cast<size_t>(rank)]) {
    uploader_ = *kernels::Uploader::Make(device_, kRing);
    weights_ = *PlaceExperts(*uploader_, held.model, share_);
    EXPECT_TRUE(weights_.StreamWait(device_).ok());
    layers_ = MakeExpertLayers(held.model, weights_.weights, topology, Rank{rank}, options,
                               device_.place());
    EXPECT_TRUE(device_.TakeFailure().ok());
  }

  void Compute(int layer, const std::vector<Bytes>& rows, Contributions& to) {
    const auto row_bytes = static_cast<size_t>(held_.model.hidden * SizeOf(WireType(held_.model)));
    layers_->Begin(layer);
    for (int a = 0; a < kSenders; ++a) {
      const Bytes& of = rows[static_cast<size_t>(a)];
      ArrivedRows arrived;
      arrived.rows = of.data();
      arrived.count = static_cast<int>(of.size() / row_bytes);
      ASSERT_TRUE(layers_->Gate(Rank{a}, arrived).ok());
    }
    ASSERT_TRUE(layers_->Assign().ok());
    ASSERT_TRUE(layers_->Start().ok());
    struct Reply {
      std::vector<ContributionRef> refs;
      Bytes rows;
    };
    std::vector<Reply> replies(kSenders);
    const Status computed = layers_->Compute([&](Rank sender, int count) {
      Reply& reply = replies[static_cast<size_t>(sender.value)];
      reply.refs.resize(static_cast<size_t>(count));
      reply.rows.resize(static_cast<size_t>(count) * row_bytes);
      return ExpertExchange::Outgoing{reply.refs, reply.rows.data()};
    });
    ASSERT_TRUE(computed.ok()) << computed.ToString();
    ASSERT_TRUE(device_.Wait().ok());
    for (int a = 0; a < kSenders; ++a) {
      const Reply& reply = replies[static_cast<size_t>(a)];
      for (size_t i = 0; i < reply.refs.size(); ++i) {
        const auto begin = reply.rows.begin() + static_cast<ptrdiff_t>(i * row_bytes);
        const auto [at, is_new] =
            to.emplace(std::tuple{a, reply.refs[i].row, reply.refs[i].slot},
                       Bytes(begin, begin + static_cast<ptrdiff_t>(row_bytes)));
        EXPECT_TRUE(is_new) << "twice: sender " << a << ", row " << reply.refs[i].row;
      }
    }
  }

  // The whole memory for each sender's replies on the device, of an instance with device_replies:
  // as a round leaves it, and all ones where the round wrote nothing.
  std::vector<Bytes> ComputeInPlace(int layer, const std::vector<Bytes>& rows) {
    const auto row_bytes = static_cast<size_t>(held_.model.hidden * SizeOf(WireType(held_.model)));
    // As if all rows came from one sender.
    const size_t room = size_t{kSenders} * kMostRows * held_.model.moe.top_k * row_bytes;
    std::vector<kernels::Buffer> replies;
    std::vector<Bytes> left(kSenders, Bytes(room, std::byte{0xFF}));
    layers_->Begin(layer);
    for (int a = 0; a < kSenders; ++a) {
      const auto at = static_cast<size_t>(a);
      replies.push_back(device_.AllocateCopyOrNote(left[at].data(), room));
      ArrivedRows arrived;
      arrived.rows = rows[at].data();
      arrived.count = static_cast<int>(rows[at].size() / row_bytes);
      EXPECT_TRUE(layers_->Gate(Rank{a}, arrived, replies[at].data()).ok());
    }
    EXPECT_TRUE(layers_->Assign().ok());
    EXPECT_TRUE(layers_->Start().ok());
    std::vector<std::vector<ContributionRef>> refs(kSenders);
    EXPECT_TRUE(layers_
                    ->Compute([&](Rank sender, int count) {
                      auto& of = refs[static_cast<size_t>(sender.value)];
                      of.resize(static_cast<size_t>(count));
                      return ExpertExchange::Outgoing{of, nullptr};
                    })
                    .ok());
    for (size_t a = 0; a < kSenders; ++a) {
      EXPECT_TRUE(device_.CopyOut(left[a].data(), replies[a].data(), room).ok());
    }
    EXPECT_TRUE(device_.Wait().ok());
    return left;
  }

  kernels::ContextCounts counts() const { return device_.counts(); }
  const ExpertLayers& layers() const { return *layers_; }

 private:
  const HeldModel& held_;
  const ExpertWeights share_;
  kernels::EmulatedDevice device_;
  std::unique_ptr<kernels::Uploader> uploader_;
  Placed<ExpertWeights> weights_;
  std::unique_ptr<ExpertLayers> layers_;
};

std::vector<Bytes> RandomRows(const HeldModel& held, const std::vector<int>& counts,
                              Random& random) {
  std::vector<Bytes> rows;
  for (const int count : counts) {
    const auto values = static_cast<size_t>(count * held.model.hidden);
    std::vector<uint16_t> row(values);
    for (uint16_t& value : row) {
      value = ToBFloat16(static_cast<float>(random.Between(-1000, 1000)) * 0.002f);
    }
    const auto* const begin = reinterpret_cast<const std::byte*>(row.data());
    rows.emplace_back(begin, begin + values * sizeof(uint16_t));
  }
  return rows;
}

struct Way {
  const char* name;
  ExpertLayersOptions options;
  // Replays, and whether gate weights are copied to the host (for the host's lists), in a round
  // of 12 rows.
  int replays;
  bool host_lists;
};
class RoundsTest : public testing::TestWithParam<Way> {};

TEST_P(RoundsTest, GiveEachRowItsContributionsOnce) {
  const HeldModel held = SmallRandomModel(DType::kBFloat16, 3);
  const int experts = held.model.moe.experts;
  const int layers = held.model.moe_layers();
  Random random(5);
  const Topology one = MakeTopology(kSenders, {experts}, layers, experts, 1, kMostRows);
  Topology two = MakeTopology(kSenders, {experts, experts - 2}, layers, experts, 1, kMostRows);
  two.placement = RandomPlacement(random, {experts, experts - 2}, layers, experts);
  Instance alone(held, one, 0, {.graphs = false});
  Instance first(held, two, 0, GetParam().options);
  Instance second(held, two, 1, GetParam().options);
  const uint64_t recorded = first.counts().graphs;
  for (const std::vector<int>& counts : std::vector<std::vector<int>>{
           {3, 2}, {4, 4}, {7, 1}, {0, 8}, {1, 0}, {0, 0}, {3, 4}, {12, 12}, {2, 10}, {12, 0}}) {
    for (int layer = 0; layer < layers; ++layer) {
      const std::vector<Bytes> rows = RandomRows(held, counts, random);
      Contributions wanted, got;
      alone.Compute(layer, rows, wanted);
      const kernels::ContextCounts before = first.counts();
      first.Compute(layer, rows, got);
      const kernels::ContextCounts after = first.counts();
      second.Compute(layer, rows, got);
      ASSERT_EQ(wanted.size(), static_cast<size_t>((counts[0] + counts[1]) * held.model.moe.top_k));
      ASSERT_EQ(got, wanted) << counts[0] << " and " << counts[1] << " rows";
      if (counts[0] + counts[1] != 12) continue;
      EXPECT_EQ(after.replays - before.replays, static_cast<uint64_t>(GetParam().replays));
      const uint64_t lists = after.bytes_in - before.bytes_in -
                             static_cast<uint64_t>(12 * held.model.hidden * 2) -
                             (64 + kSenders * (8 + 4)) - 8 * 12;
      EXPECT_EQ(lists > 0, GetParam().host_lists) << lists;
    }
  }
  EXPECT_EQ(first.counts().graphs, recorded);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, RoundsTest,
    testing::Values(Way{"Recorded", {SchedulingPolicy::kAebs, 0, true}, 2, false},
                    Way{"Greedy", {SchedulingPolicy::kAebsGreedy, 4, true}, 2, false},
                    Way{"Anew", {SchedulingPolicy::kAebs, 0, false}, 0, false},
                    Way{"TooFewRowsToSplit", {SchedulingPolicy::kAebs, 12, true}, 2, false},
                    Way{"Random", {SchedulingPolicy::kRandom, 0, true}, 0, true},
                    Way{"Static", {SchedulingPolicy::kStatic, 0, true}, 0, true},
                    // Beyond one row the host schedules from the start.
                    Way{"ByTheHost", {SchedulingPolicy::kAebs, 1, true}, 0, true}),
    [](const auto& info) { return info.param.name; });

// There are fewer rows than the launches were recorded for; the others are routed nowhere. In its
// senders' memory, a recorded round leaves the same as the round without recording, and nothing
// behind a sender's last contribution.
TEST(Rounds, ListNoRowsBeyondThoseThatCame) {
  const HeldModel held = SmallRandomModel(DType::kBFloat16, 3);
  const int experts = held.model.moe.experts;
  const Topology one =
      MakeTopology(kSenders, {experts}, held.model.moe_layers(), experts, 1, kMostRows);
  ExpertLayersOptions options{SchedulingPolicy::kAebs, 0, true};
  options.device_replies = true;
  Instance recorded(held, one, 0, options);
  options.graphs = false;
  Instance anew(held, one, 0, options);
  Random random(11);
  const auto contribution = static_cast<size_t>(held.model.hidden) * sizeof(uint16_t);
  for (const std::vector<int>& counts : std::vector<std::vector<int>>{
           {3, 2}, {5, 0}, {0, 5}, {7, 0}, {4, 3}, {9, 0}, {3, 6}, {1, 10}, {12, 1}, {12, 9}}) {
    const std::vector<Bytes> rows = RandomRows(held, counts, random);
    const uint64_t replays = recorded.counts().replays;
    const std::vector<Bytes> got = recorded.ComputeInPlace(0, rows);
    ASSERT_EQ(recorded.counts().replays - replays, 2u);
    const std::vector<Bytes> wanted = anew.ComputeInPlace(0, rows);
    for (size_t a = 0; a < kSenders; ++a) {
      EXPECT_TRUE(got[a] == wanted[a]) << counts[0] << " and " << counts[1] << " rows, to " << a;
      const size_t end =
          static_cast<size_t>(counts[a]) * static_cast<size_t>(held.model.moe.top_k) * contribution;
      EXPECT_TRUE(std::all_of(got[a].begin() + static_cast<ptrdiff_t>(end), got[a].end(),
                              [](std::byte b) { return b == std::byte{0xFF}; }))
          << counts[0] << " and " << counts[1] << " rows, behind those to " << a;
    }
  }
}

// Device and host schedule alike by the requested policy, also where the two policies differ.
TEST(Rounds, AreScheduledByTheirPolicy) {
  ModelDescription model = SmallModelDescription(DType::kBFloat16);
  model.moe.experts = 24;
  const HeldModel held = RandomModel(model, 8);
  const int layers = model.moe_layers();
  const std::vector<int> slots = {16, 16, 16};
  Random random(9);
  int different = 0;
  for (int round = 0; round < 6; ++round) {
    Topology three = MakeTopology(kSenders, slots, layers, 24, 1, kMostRows);
    three.placement = RandomPlacement(random, slots, layers, 24);
    const std::vector<Bytes> rows = RandomRows(held, {1, 2}, random);
    std::vector<size_t> counts;
    for (const auto policy : {SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy}) {
      Contributions all;
      for (int rank = 0; rank < 3; ++rank) {
        Instance instance(held, three, rank, {policy, 0, true});
        instance.Compute(0, rows, all);
        counts.push_back(all.size());
      }
      Instance alone(held, MakeTopology(kSenders, {24}, layers, 24, 1, kMostRows), 0, {});
      Contributions wanted;
      alone.Compute(0, rows, wanted);
      ASSERT_EQ(all, wanted);
    }
    different += counts[0] != counts[3] || counts[1] != counts[4] ? 1 : 0;
  }
  EXPECT_GT(different, 0) << "the policies gave the same throughout";
}

// A split is possible, but the average expert has few rows for it, so the device continues by
// itself. All rows are alike and choose one expert: the host finds that.
TEST(Rounds, AreComputedAnewWhereTheIdsAskForSplits) {
  ModelDescription model = SmallModelDescription(DType::kBFloat16);
  model.moe.experts = 64;
  model.moe.top_k = 1;
  const HeldModel held = RandomModel(model, 6);
  const int layers = model.moe_layers();
  constexpr int kExperts = 64;
  const Topology one = MakeTopology(kSenders, {kExperts}, layers, kExperts, 1, kMostRows);
  const Topology two = MakeTopology(kSenders, {kExperts, kExperts}, layers, kExperts, 1, kMostRows);
  Instance alone(held, one, 0, {.graphs = false});
  const ExpertLayersOptions splits{SchedulingPolicy::kAebs, 2, true};
  Instance first(held, two, 0, splits);
  Instance second(held, two, 1, splits);
  Random random(7);
  std::vector<Bytes> rows = RandomRows(held, {1, 1}, random);
  const Bytes row = rows[0];
  for (Bytes& of : rows) {
    of.clear();
    for (int i = 0; i < 12; ++i) of.insert(of.end(), row.begin(), row.end());
  }
  Contributions wanted, got, of_first;
  alone.Compute(0, rows, wanted);
  const uint64_t replays = first.counts().replays;
  first.Compute(0, rows, of_first);
  EXPECT_EQ(first.counts().replays - replays, 2u) << "the device did not begin by itself";
  got = of_first;
  second.Compute(0, rows, got);
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(of_first.size(), 12u) << "the one expert's rows are not split over both";
}

// The host queries without waiting: the rows may still be on their way to the device.
TEST(Rounds, AreAssignedOnceTheDeviceHasTheRows) {
  const HeldModel held = SmallRandomModel(DType::kBFloat16, 3);
  const int experts = held.model.moe.experts;
  const Topology one =
      MakeTopology(kSenders, {experts}, held.model.moe_layers(), experts, 1, kMostRows);
  for (const int crossover_rows : {0, 1}) {  // scheduled by the device, by the host
    const std::vector<ExpertWeights> shares = held.Shares(one.placement);
    kernels::Flag flag{0};
    kernels::EmulatedDevice device;
    device.RunBehind(TestSeed());
    const auto uploader = *kernels::Uploader::Make(device, kRing);
    const auto weights = *PlaceExperts(*uploader, held.model, shares[0]);
    ASSERT_TRUE(weights.StreamWait(device).ok());
    const auto layers =
        MakeExpertLayers(held.model, weights.weights, one, Rank{0},
                         {SchedulingPolicy::kAebs, crossover_rows, true}, device.place());
    const kernels::Buffer shown =
        *device.RegisterFlags(reinterpret_cast<std::byte*>(&flag), sizeof flag);
    Random random(TestSeed());
    const std::vector<Bytes> rows = RandomRows(held, {2, 0}, random);
    layers->Begin(0);
    ASSERT_TRUE(device.StreamWaitFlags(std::array{kernels::FlagCount{&flag, 1}}).ok());
    ASSERT_TRUE(layers->Gate(Rank{0}, {.count = 2, .rows = rows[0].data(), .posted = {}}).ok());
    ASSERT_TRUE(layers->Assign().ok());
    ASSERT_TRUE(layers->Start().ok());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*layers->IsAssigned(), false);
    flag.store(1);
    while (!*layers->IsAssigned()) std::this_thread::yield();
    ASSERT_TRUE(device.Wait().ok());
  }
}

}  // namespace
}  // namespace janus::dataplane
