// How steps use a device's memory: they allocate nothing, and copy what docs/cuda.md lists.

#include <gtest/gtest.h>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

class EmulatedStepTest : public testing::Test {
 protected:
  static constexpr int kTokens = 12;
  static constexpr int kPrompt = 3;
  static constexpr int kRows = 16;  // of a round, at most
  // The description of a round of one row of one sender for the experts' device: row count, address
  // for replies, first row, row address.
  static constexpr uint64_t kRoundUp = 64 + 8 + 8 + 8;
  static constexpr int kSlots = 8;

  EmulatedStepTest() : held_(SmallLatentModel(DType::kBFloat16, 1)) {
    options_.topology =
        MakeTopology(1, {kSlots}, held_.model.moe_layers(), held_.model.moe.experts, 1, kRows);
    options_.attention.kv_bytes = 1 << 18;
    options_.attention.max_batch = 8;
    options_.device = kernels::Device::kCuda;
    options_.make_context = OnDevice().make_context;
    shares_ = held_.Shares(options_.topology.placement);
  }

  static RequestKey Submit(LoopbackCluster& cluster, uint64_t id, int tokens) {
    Request request;
    request.key = {1, id, 1};
    for (int i = 0; i < kPrompt; ++i) request.prompt.push_back(5 + i);
    request.max_tokens = tokens;
    EXPECT_TRUE(cluster.attention(0).Submit(request).ok());
    return request.key;
  }

  // The cost of one decode step at either side, from the difference between two lengths of answer.
  struct Added {
    uint64_t copies_in, copies_out, bytes_in, bytes_out, replays, waits;
    static Added Between(const kernels::ContextCounts& few, const kernels::ContextCounts& many) {
      return {many.copies_in - few.copies_in, many.copies_out - few.copies_out,
              many.bytes_in - few.bytes_in,   many.bytes_out - few.bytes_out,
              many.replays - few.replays,     many.waits - few.waits};
    }
  };
  std::pair<Added, Added> ByOneStep() {
    const auto counts_of = [&](int tokens) {
      LoopbackCluster cluster(options_, held_.model, held_.attention, PointersTo(shares_));
      EXPECT_TRUE(cluster.Await(Submit(cluster, 1, tokens)).error.ok());
      EXPECT_TRUE(cluster.Stop().ok());
      return std::pair{cluster.attention_context(0).counts(), cluster.expert_context(0).counts()};
    };
    const auto [attention_few, experts_few] = counts_of(4);
    const auto [attention_many, experts_many] = counts_of(5);
    return {Added::Between(attention_few, attention_many),
            Added::Between(experts_few, experts_many)};
  }

  const HeldModel held_;
  LoopbackCluster::Options options_;
  std::vector<ExpertWeights> shares_;
};

TEST_F(EmulatedStepTest, TakesNoMemory) {
  LoopbackCluster cluster(options_, held_.model, held_.attention, PointersTo(shares_));
  const uint64_t attention = cluster.attention_context(0).counts().allocations;
  const uint64_t experts = cluster.expert_context(0).counts().allocations;
  EXPECT_GT(attention, 0u);
  EXPECT_GT(experts, 0u);
  std::vector<RequestKey> keys;
  for (uint64_t i = 0; i < 4; ++i) keys.push_back(Submit(cluster, i, kTokens));
  for (const RequestKey& key : keys) {
    const LoopbackCluster::Outcome outcome = cluster.Await(key);
    ASSERT_TRUE(outcome.error.ok()) << outcome.error.ToString();
    EXPECT_EQ(outcome.tokens.size(), static_cast<size_t>(kTokens));
  }
  EXPECT_EQ(cluster.attention_context(0).counts().allocations, attention);
  EXPECT_EQ(cluster.expert_context(0).counts().allocations, experts);
}

// A GPU's copy from or to memory that is not pinned may block its host for as long as the GPU is
// busy, including its waits.
TEST_F(EmulatedStepTest, CopiesToAndFromPinnedMemoryAlone) {
  const auto pageable = [](const kernels::Context& context) {
    return static_cast<const kernels::EmulatedDevice&>(context).pageable_copies();
  };
  for (const Join& join : {Join(nullptr), Join(JoinMemory), JoinDomains(2)}) {
    options_.device_join = join;
    options_.connect = ConnectMemory;
    LoopbackCluster cluster(options_, held_.model, held_.attention, PointersTo(shares_));
    // Tables that are copied before steps, and proofs for peers on other machines.
    const uint64_t attention = pageable(cluster.attention_context(0));
    const uint64_t experts = pageable(cluster.expert_context(0));
    const kernels::ContextCounts before = cluster.attention_context(0).counts();
    ASSERT_TRUE(cluster.Await(Submit(cluster, 1, kTokens)).error.ok());
    EXPECT_EQ(pageable(cluster.attention_context(0)), attention);
    EXPECT_EQ(pageable(cluster.expert_context(0)), experts);
    EXPECT_GT(cluster.attention_context(0).counts().copies_in, before.copies_in);
  }
}

// A sequence is preempted before each second step and returns in it. The host waits no more often
// than without that, and the only additional copies are those of its page, one for each layer and
// direction.
TEST_F(EmulatedStepTest, SwapsWithoutAWaitOrMemory) {
  struct Run {
    kernels::ContextCounts counts;
    uint64_t pageable, taken, preempted;
    std::vector<int32_t> tokens;
  };
  const auto run = [&](bool preempts) {
    options_.steering.preempt_override = [preempts](uint64_t step) {
      return preempts && step % 2 == 0;
    };
    LoopbackCluster cluster(options_, held_.model, held_.attention, PointersTo(shares_));
    kernels::Context& context = cluster.attention_context(0);
    const uint64_t before = context.counts().allocations;
    const LoopbackCluster::Outcome outcome = cluster.Await(Submit(cluster, 1, kTokens));
    EXPECT_TRUE(outcome.error.ok()) << outcome.error.ToString();
    EXPECT_TRUE(cluster.Stop().ok());
    return Run{context.counts(), dynamic_cast<kernels::EmulatedDevice&>(context).pageable_copies(),
               context.counts().allocations - before, cluster.attention(0).statistics().preempted,
               outcome.tokens};
  };
  const Run without = run(false), with = run(true);
  EXPECT_EQ(with.tokens, without.tokens);
  EXPECT_EQ(without.preempted, 0u);
  EXPECT_GE(with.preempted, uint64_t{kTokens} / 2 - 1);
  EXPECT_EQ(with.taken, 0u);
  EXPECT_EQ(with.counts.waits, without.counts.waits);
  EXPECT_EQ(with.pageable, without.pageable);
  const uint64_t copies = with.preempted * static_cast<uint64_t>(held_.model.layers);
  EXPECT_EQ(with.counts.copies_out - without.counts.copies_out, copies);
  EXPECT_EQ(with.counts.copies_in - without.counts.copies_in, copies);
}

TEST_F(EmulatedStepTest, CopiesRowsAndContributionsOnce) {
  const auto [attention, experts] = ByOneStep();
  const auto k = static_cast<uint64_t>(held_.model.moe.top_k);
  const auto layers = static_cast<uint64_t>(held_.model.moe_layers());
  const uint64_t row = static_cast<uint64_t>(held_.model.hidden) * 2;
  // Down: a row per MoE layer, and the drawn token. Up: the step's description, the sampling's
  // parameters, contributions.
  EXPECT_EQ(attention.copies_out, layers + 1);
  EXPECT_EQ(attention.bytes_out, layers * row + sizeof(kernels::SampledToken));
  EXPECT_EQ(attention.copies_in, 1 + 1 + layers);
  const uint64_t step = 24 * kRows + 4 /* a page */ +
                        sizeof(kernels::ActiveExpert) * static_cast<uint64_t>(held_.model.layers);
  EXPECT_EQ(attention.bytes_in, step + sizeof(kernels::SamplingParams) + layers * k * row);
  // Up: the row, and the description of the round. Down: ids, contributions.
  EXPECT_EQ(experts.copies_in, 2 * layers);
  EXPECT_EQ(experts.bytes_in, layers * (row + kRoundUp));
  EXPECT_EQ(experts.bytes_out, layers * k * (row + 2));
  EXPECT_EQ(experts.copies_out, 2 * layers);
  // One launch each for a layer's attention, shared experts, routing and experts.
  EXPECT_EQ(attention.replays, static_cast<uint64_t>(held_.model.layers) + layers);
  EXPECT_EQ(experts.replays, 2 * layers);
  // The host waits for the ids, which have arrived by then, and for the staging of the previous
  // round. It only queries whether its replies are complete.
  EXPECT_EQ(experts.waits, 2 * layers);
}

TEST_F(EmulatedStepTest, CopiesAddressesAloneWherePeersReadTheDevices) {
  options_.device_join = JoinMemory;
  const auto [attention, experts] = ByOneStep();
  const auto k = static_cast<uint64_t>(held_.model.moe.top_k);
  const auto layers = static_cast<uint64_t>(held_.model.moe_layers());
  EXPECT_EQ(attention.copies_out, 1u);
  EXPECT_EQ(attention.bytes_out, sizeof(kernels::SampledToken));
  const uint64_t step = 24 * kRows + 4 /* a page */ +
                        sizeof(kernels::ActiveExpert) * static_cast<uint64_t>(held_.model.layers);
  EXPECT_EQ(attention.copies_in, 1 + 1 + layers);
  EXPECT_EQ(attention.bytes_in, step + sizeof(kernels::SamplingParams) + layers * k * 8);
  // Up: the same without the row. Down: ids.
  EXPECT_EQ(experts.copies_in, layers);
  EXPECT_EQ(experts.bytes_in, layers * kRoundUp);
  EXPECT_EQ(experts.copies_out, layers);
  EXPECT_EQ(experts.bytes_out, layers * k * 2);
  EXPECT_EQ(attention.replays, static_cast<uint64_t>(held_.model.layers) + layers);
  EXPECT_EQ(experts.replays, 2 * layers);
}

}  // namespace
}  // namespace janus::dataplane
