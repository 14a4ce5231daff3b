// Compares what plans count for an instance's GPU (common/model/device_memory.h) with what
// instances use.

#include <gtest/gtest.h>

#include <string>

#include "common/model/device_memory.h"
#include "common/model/memory.h"
#include "dataplane/attention/self_attention.h"
#include "kernels/device/row_buckets.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/networks.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

struct PlanCase {
  std::string name;
  ModelDescription model;
  int m, n, slots;
  int micro_batches, rows, batch;
  int64_t kv_bytes;
  Compression compression = Compression::kNone;
  int sum_bits = 0;
};

ModelDescription Widened(ModelDescription model, int hidden, int top_k) {
  model.hidden = hidden;
  model.moe.top_k = top_k;
  model.moe.experts = 24;
  model.moe.groups = model.moe.top_groups = 1;
  return model;
}

std::vector<PlanCase> Cases() {
  const ModelDescription grouped = GroupedHeadsModel(DType::kBFloat16, 1).model;
  const ModelDescription latent = SmallLatentModel(DType::kBFloat16, 1).model;
  ModelDescription wide = Widened(grouped, 512, 8);
  wide.moe.intermediate = 128;
  wide.attention.heads = 16;
  wide.attention.kv_heads = 4;
  wide.attention.head_dim = 128;
  wide.attention.rope.rotary_dim = 128;
  ModelDescription deepseek = Widened(DeepSeekHeadsModel(DType::kBFloat16, 1).model, 384, 6);
  deepseek.moe.intermediate = 128;
  deepseek.moe.shared_intermediate = 512;
  deepseek.attention.heads = deepseek.attention.kv_heads = 16;
  ModelDescription gated = Widened(grouped, 512, 8);
  gated.attention.has_bias = true;
  gated.moe.shared_intermediate = 512;
  gated.moe.has_shared_gate = true;
  ModelDescription sinks = Widened(grouped, 512, 4);
  sinks.attention.has_bias = sinks.attention.has_output_bias = sinks.attention.has_sinks = true;
  sinks.moe.has_logit_bias = sinks.moe.has_expert_bias = true;
  ModelDescription chunks = Widened(SmallChunksModel(DType::kBFloat16, 1).model, 512, 1);
  chunks.moe.shared_intermediate = 512;
  chunks.max_positions = 1 << 20;
  chunks.attention.temperature->floor = 8;  // 131,073 factors
  return {
      {"ChunksInParts", chunks, 2, 1, 24, 2, 256, 64, 4 << 20},
      {"SinksInParts", sinks, 2, 1, 24, 2, 256, 64, 4 << 20},
      {"GatedInParts", gated, 2, 1, 24, 2, 256, 64, 4 << 20},
      {"Grouped", wide, 1, 1, 24, 1, 256, 64, 4 << 20},
      {"GroupedInParts", wide, 2, 3, 8, 2, 256, 256, 8 << 20},
      {"DeepSeek", deepseek, 1, 1, 24, 1, 512, 128, 4 << 20},
      {"DeepSeekInParts", deepseek, 3, 2, 14, 3, 200, 50, 8 << 20},
      {"DeepSeekInPartsFp8", deepseek, 3, 2, 14, 3, 200, 50, 8 << 20, Compression::kFp8},
      {"DeepSeekInPartsSums", deepseek, 3, 2, 14, 3, 200, 50, 8 << 20, Compression::kNone, 32},
      {"Small", latent, 2, 1, latent.moe.experts, 1, 64, 16, 1 << 20},
  };
}

class PlanBytes : public testing::TestWithParam<PlanCase> {};

// At least that much, or Prepare would refuse a planned epoch. Not much more, or GPUs would stay
// empty.
void ExpectCovers(int64_t counted, uint64_t held, const char* whose) {
  EXPECT_GE(counted, static_cast<int64_t>(held)) << whose;
  EXPECT_LE(counted, static_cast<int64_t>(held) * 103 / 100 + (64 << 10)) << whose;
}

TEST_P(PlanBytes, AreWhatInstancesTake) {
  const PlanCase& c = GetParam();
  const HeldModel held = RandomModel(c.model, 1);
  LoopbackCluster::Options options = OnDevices();
  options.topology =
      MakeTopology(c.m, std::vector<int>(static_cast<size_t>(c.n), c.slots), c.model.moe_layers(),
                   c.model.moe.experts, c.micro_batches, c.rows);
  options.compression = c.compression;
  options.sums = TestSums(c.model, c.sum_bits);
  options.attention.kv_bytes = c.kv_bytes;
  options.attention.max_batch = c.batch;
  options.attention.graphs = options.experts.graphs = false;  // they use no device memory here
  // All members read each other over a network: slots are shown and read into landing memory.
  options.device_join = JoinDomains(9);
  const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));

  const RoundRoom room{c.rows, c.batch, c.micro_batches, c.compression, c.sum_bits};
  const int64_t keys = c.kv_bytes / KvBytesPerToken(c.model);
  const int64_t spare_page = KvBytesPerToken(c.model) * kernels::kPageTokens;
  for (int rank = 0; rank < c.m; ++rank) {
    ExpectCovers(AttentionWeightBytes(c.model) + c.kv_bytes + spare_page +
                     AttentionDeviceBytes(c.model, room, keys) +
                     AttentionDeviceSlotBytes(c.model, room),
                 cluster.attention_context(rank).memory()->held, "attention");
  }
  for (int rank = 0; rank < c.n; ++rank) {
    ExpectCovers(GateWeightBytes(c.model) +
                     ExpertWeightBytes(c.model) * c.slots * c.model.moe_layers() +
                     ExpertDeviceBytes(c.model, room, c.m, c.n, c.slots) +
                     ExpertDeviceSlotBytes(c.model, room, c.m),
                 cluster.expert_context(rank).memory()->held, "experts");
  }
  ASSERT_TRUE(cluster.Stop().ok());
}
INSTANTIATE_TEST_SUITE_P(All, PlanBytes, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// Rows that land once for a node take no more memory than in mode Direct, for which plans count.
TEST(PlanBytesOfTwoPhases, AreNoMoreThanDirects) {
  const ModelDescription model = SmallLatentModel(DType::kBFloat16, 1).model;
  const PlanCase c{"", model, 2, 3, model.moe.experts, 2, 64, 16, 1 << 20};
  const HeldModel held = RandomModel(c.model, 1);
  for (const ExchangeMode mode : {ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel}) {
    LoopbackCluster::Options options = OnDevices();
    options.topology =
        MakeTopology(c.m, std::vector<int>(static_cast<size_t>(c.n), c.slots), c.model.moe_layers(),
                     c.model.moe.experts, c.micro_batches, c.rows);
    options.topology.mode = mode;
    GroupIntoNodes(options.topology, c.m, c.n);
    options.attention.kv_bytes = c.kv_bytes;
    options.attention.max_batch = c.batch;
    options.attention.graphs = options.experts.graphs = false;
    options.device_join = JoinDomainsOf({0, 0, 1, 1, 1});
    const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
    LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
    EXPECT_EQ(cluster.InPlaceRefusal(), "");
    const RoundRoom room{c.rows, c.batch, c.micro_batches, c.compression, c.sum_bits};
    const int64_t counted = GateWeightBytes(c.model) +
                            ExpertWeightBytes(c.model) * c.slots * c.model.moe_layers() +
                            ExpertDeviceBytes(c.model, room, c.m, c.n, c.slots) +
                            ExpertDeviceSlotBytes(c.model, room, c.m);
    for (int rank = 0; rank < c.n; ++rank) {
      EXPECT_GE(counted, static_cast<int64_t>(cluster.expert_context(rank).memory()->held));
    }
    ASSERT_TRUE(cluster.Stop().ok());
  }
}

TEST(PlanKeys, AreWhatAPageHolds) {
  for (const HeldModel& held :
       {SmallRandomModel(DType::kFloat32, 1), SmallLatentModel(DType::kBFloat16, 1),
        GroupedHeadsModel(DType::kBFloat16, 1), DeepSeekHeadsModel(DType::kBFloat16, 1)}) {
    const ModelDescription& model = held.model;
    const int64_t tokens = int64_t{kernels::kPageTokens};
    EXPECT_EQ(KvBytesPerToken(model) * tokens,
              model.layers * CachePageBytes(model, WireType(model)));
    EXPECT_EQ(Fp8KvBytesPerToken(model) * tokens,
              model.layers * CachePageBytes(model, DType::kFloat8E4M3));
  }
}

TEST(PlanGraphs, AreAsManyAsAreRecorded) {
  ModelDescription model = SmallLatentModel(DType::kBFloat16, 1).model;
  constexpr int64_t kGraph = 32 << 10;
  for (const int batch : {1, 2, 3, 7, 8, 64, 200}) {
    const RoundRoom room{512, batch, 2};
    const auto recordings = static_cast<int64_t>(kernels::RowBuckets(batch, 256).size());
    EXPECT_GE(AttentionGraphBytes(model, room),
              kGraph * 2 * recordings * (model.layers + model.moe_layers()))
        << batch;
  }
}

}  // namespace
}  // namespace janus::dataplane
