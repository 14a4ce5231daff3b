// What a plan counts for the memory in which an instance computes (common/model/memory.h) is what
// the instance allocates: never less, and not much more.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "common/model/memory.h"
#include "dataplane/attention/host_sampler.h"
#include "dataplane/attention/layers.h"
#include "dataplane/experts/expert_layers.h"
#include "kernels/team.h"
#include "tests/integration/allocations/allocations.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

constexpr int kRows = 1024, kBatch = 64, kThreads = 2;

struct Shape {
  std::string name;
  ModelDescription model;
};

// Shapes in which buffers that grow with the rows outweigh all others.
std::vector<Shape> Shapes() {
  ModelDescription grouped = SmallModelDescription(DType::kBFloat16);
  grouped.hidden = 512;
  grouped.vocab = 4000;
  grouped.moe.intermediate = 256;
  ModelDescription latent = SmallLatentModel(DType::kBFloat16, 1).model;
  latent.hidden = 512;
  latent.vocab = 4000;
  latent.attention.latent->rank = 64;
  latent.attention.latent->query_rank = 96;
  latent.moe.intermediate = 256;
  ModelDescription wide = grouped;
  wide.dtype = DType::kFloat32;
  return {{"Grouped", grouped}, {"Latent", latent}, {"Float32", wide}};
}

class WorkspaceTest : public testing::TestWithParam<Shape> {
 protected:
  // How the exchange compresses, and whether it adds.
  static constexpr std::pair<Compression, bool> kWays[] = {{Compression::kNone, false},
                                                           {Compression::kFp8, false},
                                                           {Compression::kNone, true},
                                                           {Compression::kFp8, true}};

  static void ExpectCounted(uint64_t allocated, int64_t counted) {
    EXPECT_LE(allocated, static_cast<uint64_t>(counted));
    EXPECT_GE(static_cast<double>(allocated), 0.6 * static_cast<double>(counted));
    std::cout << "allocated " << allocated << " of " << counted << " counted bytes\n";
  }

  const HeldModel held_ = RandomModel(GetParam().model, 1);
  kernels::Team team_{kThreads};
  kernels::Stream stream_{.device = kernels::Device::kCpu, .team = &team_};
};

TEST_P(WorkspaceTest, OfAnAttentionInstance) {
  const ModelDescription& model = held_.model;
  KvPagePoolOptions options;
  options.layers = model.layers;
  options.dtype = WireType(model);
  options.page_bytes = CachePageBytes(model, options.dtype);
  options.bytes = options.page_bytes * options.layers * 4;
  const std::unique_ptr<KvPagePool> cache = std::move(*KvPagePool::Create(options));

  for (const auto& [compression, adds] : kWays) {
    const FixedPointSums sums = TestSums(model, adds ? 32 : 0);
    const Allocations before = AllocationsOfThisThread();
    const AttentionLayers layers(
        model, held_.attention, *cache, stream_,
        AttentionLayers::Room{.max_rows = kRows, .compression = compression, .sums = sums});
    const HostSampler sampler(stream_, model.vocab, model.vocab);
    const Allocations made = AllocationsOfThisThread() - before;
    // The logits grow with the first batch that asks for so many.
    const uint64_t logits = uint64_t{kBatch} * static_cast<uint64_t>(model.vocab) * sizeof(float);
    ExpectCounted(made.bytes + logits,
                  AttentionWorkspaceBytes(model, kRows, kBatch, kThreads, compression, adds));
  }
}

TEST_P(WorkspaceTest, OfAnExpertInstance) {
  const ModelDescription& model = held_.model;
  const Topology topology =
      MakeTopology(2, {model.moe.experts}, model.moe_layers(), model.moe.experts, 1, kRows);
  const std::vector<ExpertWeights> shares = held_.Shares(topology.placement);

  for (const auto& [compression, adds] : kWays) {
    const FixedPointSums sums = TestSums(model, adds ? 32 : 0);
    const Allocations before = AllocationsOfThisThread();
    const std::unique_ptr<ExpertLayers> layers = MakeExpertLayers(
        model, shares[0], topology, Rank{0}, {.compression = compression, .sums = sums}, stream_);
    const Allocations made = AllocationsOfThisThread() - before;
    ExpectCounted(made.bytes, ExpertWorkspaceBytes(model, topology.m(), kRows, compression, adds));
  }
}

INSTANTIATE_TEST_SUITE_P(All, WorkspaceTest, testing::ValuesIn(Shapes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
