// The layer that a GPU benchmark times (bench/gpu/decode_layer.h) computes the same as instances,
// recorded and newly launched. Its minimum traffic is that of the launch plans.

#include "bench/gpu/decode_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dataplane/attention/layers.h"
#include "dataplane/experts/expert_layers.h"
#include "dataplane/weights/place_weights.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/gate.h"
#include "kernels/cuda/linear_fast.h"
#include "kernels/cuda/norm_fast.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/rope_fast.h"
#include "kernels/cuda/rows_fast.h"
#include "tests/support/emulated_device.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/place_attention.h"
#include "tests/support/random.h"

namespace janus::bench {
namespace {

using dataplane::HeldModel;

// A model with its tensors on a device.
class OnADevice {
 public:
  explicit OnADevice(const HeldModel& from) : model_(from.model) {
    uploader_ = *kernels::Uploader::Make(device_, {4096, 4});
    attention_ = *dataplane::PlaceAttention(*uploader_, from.model, from.attention);
    experts_ = *dataplane::PlaceExperts(*uploader_, from.model, from.experts);
    EXPECT_TRUE(attention_.StreamWait(device_).ok());
    EXPECT_TRUE(experts_.StreamWait(device_).ok());
    held_.model = from.model;
    held_.attention = attention_.weights;
    held_.experts = experts_.weights;
  }
  kernels::EmulatedDevice& device() { return device_; }
  const HeldModel& held() const { return held_; }

 private:
  const ModelDescription model_;
  kernels::EmulatedDevice device_;
  std::unique_ptr<kernels::Uploader> uploader_;
  dataplane::Placed<dataplane::AttentionWeights> attention_;
  dataplane::Placed<dataplane::ExpertWeights> experts_;
  HeldModel held_;
};

// Three layers, all with experts.
HeldModel OfMoeLayersAlone(const HeldModel& like) {
  ModelDescription model = like.model;
  model.layers = 3;
  model.dense_layers.clear();
  return dataplane::RandomModel(model, 4);
}

std::vector<float> SomeResidual(size_t count) {
  Random random(7);
  std::vector<float> values(count);
  for (float& value : values) value = random.Signed();
  return values;
}

class DecodeLayerTest : public testing::TestWithParam<const char*> {
 protected:
  DecodeLayerTest()
      : placed_(OfMoeLayersAlone(std::string(GetParam()) == "latent"
                                     ? dataplane::SmallLatentModel(DType::kBFloat16, 4)
                                     : dataplane::SmallRandomModel(DType::kBFloat16, 4))),
        model_(placed_.held().model) {}
  Topology TopologyOf(const std::vector<int>& slots) const {
    return dataplane::MakeTopology(1, slots, model_.moe_layers(), model_.moe.experts);
  }
  std::vector<float> Residual(int rows) const {
    return SomeResidual(static_cast<size_t>(rows) * static_cast<size_t>(model_.hidden));
  }
  static constexpr int kToken = 11;
  // The embedding of the row.
  std::vector<float> Embedded(kernels::Context& device) const {
    std::vector<uint16_t> row(static_cast<size_t>(model_.hidden));
    const auto* const table = static_cast<const uint16_t*>(placed_.held().attention.embedding.data);
    EXPECT_TRUE(device.CopyOut(row.data(), table + kToken * row.size(), row.size() * 2).ok());
    EXPECT_TRUE(device.Wait().ok());
    std::vector<float> values;
    for (const uint16_t value : row) values.push_back(FromBFloat16(value));
    return values;
  }
  std::unique_ptr<dataplane::KvPagePool> CacheOf(kernels::Context& device) const {
    dataplane::KvPagePoolOptions options;
    options.layers = model_.layers;
    options.dtype = WireType(model_);
    options.page_bytes = dataplane::CachePageBytes(model_, options.dtype);
    options.bytes = options.page_bytes * options.layers * 4;
    options.context = &device;
    return *dataplane::KvPagePool::Create(options);
  }

  OnADevice placed_;
  const ModelDescription& model_;
};

TEST_P(DecodeLayerTest, RecordedGivesTheBitsOfStartedAnew) {
  constexpr int kRows = 5;
  DecodeLayer layer(placed_.device(), placed_.held(), TopologyOf({model_.moe.experts}), Rank{0},
                    kRows, 19);
  ASSERT_TRUE(placed_.device().TakeFailure().ok());
  const std::vector<float> before = Residual(kRows);
  for (int l = 0; l < model_.layers; ++l) {
    ASSERT_TRUE(layer.SetResidual(before).ok());
    ASSERT_TRUE(layer.Start(placed_.device().stream(), l).ok());
    const std::vector<float> anew = *layer.residual();
    EXPECT_NE(anew, before);
    for (const float value : anew) ASSERT_TRUE(std::isfinite(value));
    const auto graph =
        placed_.device().RecordGraph([&](const kernels::Stream& on) { return layer.Start(on, l); });
    ASSERT_TRUE(graph.ok()) << graph.status().ToString();
    ASSERT_TRUE(layer.SetResidual(before).ok());
    ASSERT_TRUE(placed_.device().Replay(**graph).ok());
    EXPECT_EQ(*layer.residual(), anew);
    const DecodeLayer::Load load = *layer.load();
    EXPECT_EQ(load.rows, kRows * model_.moe.top_k);
    EXPECT_GE(load.experts, model_.moe.top_k);
    EXPECT_LE(load.experts, model_.moe.experts);
  }
}

// One row at position 0, with an embedded token: the rows for the experts, and the contributions of
// each of two expert instances.
TEST_P(DecodeLayerTest, IsWhatInstancesCompute) {
  const auto hidden = static_cast<size_t>(model_.hidden);
  kernels::EmulatedDevice& device = placed_.device();
  const Topology topology = TopologyOf({model_.moe.experts - 2, 4});
  // Like an attention instance.
  const auto cache = CacheOf(device);
  dataplane::AttentionLayers layers(model_, placed_.held().attention, *cache, device.place(),
                                    {4, 1, 4, true});
  dataplane::Sequence sequence{dataplane::Request()};
  ASSERT_TRUE(cache->Grow(sequence.pages, 1));
  dataplane::Batch batch;
  batch.rows.push_back({&sequence, 0, kToken, true, dataplane::PositionClass::kGenerated});
  ASSERT_TRUE(layers.Begin(batch).ok());
  std::vector<std::byte> sent(hidden * 2);
  ASSERT_TRUE(layers.Attend(0, 0, sent.data()).ok());
  ASSERT_TRUE(device.Wait().ok());
  // The same row here.
  const std::vector<float> residual = Embedded(device);
  int rows = 0;
  for (int rank = 0; rank < 2; ++rank) {
    DecodeLayer layer(device, placed_.held(), topology, Rank{rank}, 1, 1);
    ASSERT_TRUE(layer.SetResidual(residual).ok());
    ASSERT_TRUE(layer.Start(device.stream(), 0).ok());
    EXPECT_EQ(*layer.sent(), sent);
    // Like an expert instance.
    const auto share = placed_.held().Shares(topology.placement)[static_cast<size_t>(rank)];
    const auto experts =
        dataplane::MakeExpertLayers(model_, share, topology, Rank{rank}, {}, device.place());
    experts->Begin(0);
    ASSERT_TRUE(experts->Gate(Rank{0}, {.count = 1, .rows = sent.data(), .posted = {}}).ok());
    ASSERT_TRUE(experts->Assign().ok());
    ASSERT_TRUE(experts->Start().ok());
    std::vector<std::byte> replies;
    std::vector<dataplane::ContributionRef> refs(static_cast<size_t>(model_.moe.top_k));
    ASSERT_TRUE(experts
                    ->Compute([&](Rank, int count) {
                      replies.resize(static_cast<size_t>(count) * hidden * 2);
                      return dataplane::ExpertExchange::Outgoing{refs, replies.data()};
                    })
                    .ok());
    ASSERT_TRUE(device.Wait().ok());
    const DecodeLayer::Load load = *layer.load();
    EXPECT_EQ(load.experts, experts->activated());
    EXPECT_EQ(load.rows * hidden * 2, replies.size());
    EXPECT_EQ(*layer.contributions(load.rows), replies);
    rows += load.rows;
  }
  EXPECT_EQ(rows, model_.moe.top_k);
}

// All layers, one instance of each kind: the combined output of a layer is the input of the next.
TEST_P(DecodeLayerTest, LayersFollowOneAnotherAsInstancesComputeThem) {
  const auto row_bytes = static_cast<size_t>(model_.hidden) * 2;
  kernels::EmulatedDevice& device = placed_.device();
  const Topology topology = TopologyOf({model_.moe.experts});
  const auto cache = CacheOf(device);
  dataplane::AttentionLayers layers(model_, placed_.held().attention, *cache, device.place(),
                                    {4, 1, 4, true});
  const auto share = placed_.held().Shares(topology.placement)[0];
  const auto experts =
      dataplane::MakeExpertLayers(model_, share, topology, Rank{0}, {}, device.place());
  dataplane::Sequence sequence{dataplane::Request()};
  ASSERT_TRUE(cache->Grow(sequence.pages, 1));
  dataplane::Batch batch;
  batch.rows.push_back({&sequence, 0, kToken, true, dataplane::PositionClass::kGenerated});
  ASSERT_TRUE(layers.Begin(batch).ok());
  DecodeLayer layer(device, placed_.held(), topology, Rank{0}, 1, 1);
  ASSERT_TRUE(layer.SetResidual(Embedded(device)).ok());
  ASSERT_GE(model_.layers, 2);
  for (int l = 0; l < model_.layers; ++l) {
    std::vector<std::byte> sent(row_bytes);
    ASSERT_TRUE(layers.Attend(l, 0, sent.data()).ok());
    ASSERT_TRUE(device.Wait().ok());
    ASSERT_TRUE(layers.SharedExperts(l, 0, sent.data()).ok());
    experts->Begin(l);
    ASSERT_TRUE(experts->Gate(Rank{0}, {.count = 1, .rows = sent.data(), .posted = {}}).ok());
    ASSERT_TRUE(experts->Assign().ok());
    ASSERT_TRUE(experts->Start().ok());
    const auto k = static_cast<size_t>(model_.moe.top_k);
    std::vector<std::byte> replies(k * row_bytes);
    std::vector<dataplane::ContributionRef> refs(k);
    ASSERT_TRUE(experts
                    ->Compute([&](Rank, int) {
                      return dataplane::ExpertExchange::Outgoing{refs, replies.data()};
                    })
                    .ok());
    ASSERT_TRUE(device.Wait().ok());
    std::vector<const void*> contributions(k);
    for (size_t i = 0; i < k; ++i) {
      contributions[refs[i].slot] = replies.data() + i * row_bytes;
    }
    ASSERT_TRUE(layers.TakeExperts(0, contributions).ok());
    ASSERT_TRUE(layers.AddExperts(0).ok());
    ASSERT_TRUE(layer.Start(device.stream(), l).ok());
    EXPECT_EQ(*layer.sent(), sent) << l;
    EXPECT_EQ(*layer.contributions(model_.moe.top_k), replies) << l;
  }
}

// Every timed repetition begins with the residual that was set.
TEST_P(DecodeLayerTest, TheResidualIsAgainWhatWasSet) {
  DecodeLayer layer(placed_.device(), placed_.held(), TopologyOf({model_.moe.experts}), Rank{0}, 3,
                    19);
  const std::vector<float> before = Residual(3);
  ASSERT_TRUE(layer.SetResidual(before).ok());
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(layer.Start(placed_.device().stream(), 1).ok());
    EXPECT_NE(*layer.residual(), before);
    ASSERT_TRUE(layer.ResetResidual().ok());
    EXPECT_EQ(*layer.residual(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecodeLayerTest, testing::Values("grouped", "latent"),
                         [](const auto& info) { return std::string(info.param); });

// As many experts as DeepSeek-V2-Lite has, and as many of them for each of 64 rows with long
// contexts. If rows choose independently, a share of 1 - (1 - 6/64)^64 = 99.8 % is activated.
TEST(ResidualOfALayer, ActivatesMostExpertsInEveryLayer) {
  ModelDescription model = dataplane::SmallLatentModel(DType::kBFloat16, 4).model;
  model.layers = 2;
  model.dense_layers.clear();
  model.hidden = 96;
  model.moe.experts = 64;
  model.moe.top_k = 6;
  model.moe.groups = model.moe.top_groups = 1;
  constexpr int kRows = 64;
  OnADevice placed(dataplane::RandomModel(model, 4));
  DecodeLayer layer(
      placed.device(), placed.held(),
      dataplane::MakeTopology(1, {model.moe.experts}, model.moe_layers(), model.moe.experts),
      Rank{0}, kRows, 600);
  ASSERT_TRUE(placed.device().TakeFailure().ok());
  const std::vector<float> residual = RandomResidual(kRows, model.hidden, 1);
  ASSERT_TRUE(layer.SetResidual(residual).ok());
  for (int l = 0; l < model.layers; ++l) {
    ASSERT_TRUE(layer.ResetResidual().ok());
    ASSERT_TRUE(layer.Start(placed.device().stream(), l).ok());
    const DecodeLayer::Load load = *layer.load();
    EXPECT_GE(load.experts, 58) << l;
    EXPECT_EQ(load.rows, kRows * 6);
    // Equal rows choose equal experts.
    ASSERT_TRUE(layer.SetResidual(std::vector<float>(residual.size(), 0.25f)).ok());
    ASSERT_TRUE(layer.Start(placed.device().stream(), l).ok());
    EXPECT_LE(layer.load()->experts, 32) << l;
    ASSERT_TRUE(layer.SetResidual(residual).ok());
  }
}

TEST(RandomResidual, IsUniformAndOfOneSeed) {
  const std::vector<float> values = RandomResidual(7, 1001, 3);
  ASSERT_EQ(values.size(), 7007u);
  double sum = 0.0, squares = 0.0;
  for (const float value : values) {
    ASSERT_GE(value, -1.0f);
    ASSERT_LT(value, 1.0f);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 7007, 0.0, 0.03);  // four deviations
  EXPECT_NEAR(squares / 7007, 1.0 / 3, 0.015);
  EXPECT_EQ(RandomResidual(7, 1001, 3), values);
  EXPECT_NE(RandomResidual(7, 1001, 4), values);
  std::vector<float> sorted = values;
  std::ranges::sort(sorted);
  // Of 2^24 numbers only a few occur twice.
  EXPECT_LT(sorted.end() - std::ranges::unique(sorted).begin(), 20);
}

int64_t BytesOf(const std::vector<OperationLimit>& limits, const std::string& name) {
  for (const OperationLimit& limit : limits) {
    if (limit.name == name) return limit.bytes;
  }
  ADD_FAILURE() << name;
  return 0;
}
int64_t FlopsOf(const std::vector<OperationLimit>& limits, const std::string& name) {
  for (const OperationLimit& limit : limits) {
    if (limit.name == name) return limit.flops;
  }
  ADD_FAILURE() << name;
  return 0;
}

constexpr DType kB16 = DType::kBFloat16;

// 64 rows of DeepSeek-V3 over contexts of 4,096.
TEST(LayerLimits, OfLatentAttentionAreThoseOfLaunchPlans) {
  namespace cuda = kernels::cuda;
  ModelDescription model = dataplane::SmallLatentModel(kB16, 1).model;
  model.hidden = 7168;
  model.attention.heads = 128;
  model.attention.head_dim = 192;
  model.attention.rope.rotary_dim = 64;
  model.attention.latent = LatentDescription{.rank = 512, .value_dim = 128, .query_rank = 1536};
  model.moe.experts = 256;
  model.moe.top_k = 8;
  model.moe.intermediate = 2048;
  model.moe.shared_intermediate = 2048;
  const std::vector<OperationLimit> limits = LimitsOf(model, 64, 4096, {30, 60});
  const auto linear = [](int64_t outputs, int64_t inputs, bool accumulate) {
    return cuda::PlanLinear({.x_dtype = kB16,
                             .weight_dtype = kB16,
                             .accumulate = accumulate,
                             .rows = 64,
                             .outputs = outputs,
                             .inputs = inputs});
  };
  EXPECT_EQ(BytesOf(limits, "q_a"), linear(1536, 7168, false).bytes);
  EXPECT_EQ(BytesOf(limits, "q"), linear(128 * 192, 1536, false).bytes);
  EXPECT_EQ(FlopsOf(limits, "q"), linear(128 * 192, 1536, false).flops);
  EXPECT_EQ(BytesOf(limits, "kv_a"), linear(576, 7168, false).bytes);
  EXPECT_EQ(BytesOf(limits, "o"), linear(7168, 128 * 128, true).bytes);
  EXPECT_EQ(FlopsOf(limits, "o"), linear(7168, 128 * 128, true).flops);
  EXPECT_EQ(
      BytesOf(limits, "input norm"),
      cuda::PlanRmsNorm({.weight_dtype = kB16, .y_dtype = kB16, .rows = 64, .hidden = 7168}).bytes);
  EXPECT_EQ(BytesOf(limits, "latent norm"),
            cuda::PlanRmsNorm({.weight_dtype = kB16, .rows = 64, .hidden = 512}).bytes);
  EXPECT_EQ(BytesOf(limits, "rope"),
            cuda::PlanRope({.rows = 64, .heads = 129, .head_dim = 192, .rotary_dim = 64}).bytes);
  const kernels::AbsorbedAttentionArgs attention{
      .cache = {.dtype = kB16, .rank = 512, .rope = 64}, .num_rows = 64, .heads = 128};
  const kernels::LatentWriteArgs write{.cache = attention.cache, .num_rows = 64};
  EXPECT_EQ(BytesOf(limits, "latent write"), cuda::PlanLatentWrite(write).bytes);
  EXPECT_EQ(BytesOf(limits, "attention"), cuda::AbsorbedAttentionBytes(attention, 64 * 4096));
  EXPECT_EQ(FlopsOf(limits, "attention"), cuda::AbsorbedAttentionFlops(attention, 64 * 4096));
  const auto heads = [](int64_t outputs, int64_t inputs, DType y) {
    return cuda::PlanHeadLinear({.weight_dtype = kB16,
                                 .y_dtype = y,
                                 .rows = 64,
                                 .heads = 128,
                                 .outputs = outputs,
                                 .inputs = inputs});
  };
  EXPECT_EQ(BytesOf(limits, "into latent space"), heads(512, 128, DType::kFloat32).bytes);
  EXPECT_EQ(BytesOf(limits, "out of latent space"), heads(128, 512, kB16).bytes);
  EXPECT_EQ(FlopsOf(limits, "out of latent space"), heads(128, 512, kB16).flops);
  const kernels::GroupedExpertFfnArgs ffn{.hidden = 7168,
                                          .intermediate = 2048,
                                          .weight_dtype = kB16,
                                          .row_dtype = kB16,
                                          .y_dtype = kB16};
  EXPECT_EQ(BytesOf(limits, "experts"), cuda::ExpertBytes(ffn, 30, 60));
  EXPECT_EQ(FlopsOf(limits, "experts"), int64_t{60} * 6 * 7168 * 2048);
  kernels::GroupedExpertFfnArgs shared = ffn;
  shared.y_dtype = DType::kFloat32;
  EXPECT_EQ(BytesOf(limits, "shared experts"), cuda::ExpertBytes(shared, 1, 64));
  EXPECT_EQ(BytesOf(limits, "gate and AEBS"), (256 + 64) * 7168 * 2);
  EXPECT_EQ(BytesOf(limits, "combine"),
            cuda::PlanCombineSlots({.dtype = kB16, .rows = 64, .hidden = 7168, .top_k = 8}).bytes +
                64 * 7168 * 4);  // of the shared experts
}

// Mixtral: no shared experts, no latent space.
TEST(LayerLimits, OfGroupedAttentionAreThoseOfLaunchPlans) {
  namespace cuda = kernels::cuda;
  ModelDescription model = dataplane::SmallModelDescription(kB16);
  model.hidden = 4096;
  model.attention.heads = 32;
  model.attention.kv_heads = 8;
  model.attention.head_dim = model.attention.rope.rotary_dim = 128;
  model.moe.top_k = 2;
  const std::vector<OperationLimit> limits = LimitsOf(model, 16, 512, {8, 32});
  const kernels::PagedAttentionArgs attention{
      .cache = {.dtype = kB16, .kv_heads = 8, .head_dim = 128},
      .y_dtype = kB16,
      .num_rows = 16,
      .heads = 32};
  EXPECT_EQ(BytesOf(limits, "attention"), cuda::PagedAttentionBytes(attention, 16 * 512));
  EXPECT_EQ(FlopsOf(limits, "attention"), int64_t{4} * 16 * 512 * 4096);
  EXPECT_EQ(BytesOf(limits, "k"), 1024 * 4096 * 2 + 16 * 4096 * 2 + 16 * 1024 * 4);
  EXPECT_EQ(BytesOf(limits, "rope"),
            cuda::PlanRope({.rows = 16, .heads = 40, .head_dim = 128, .rotary_dim = 128}).bytes);
  const kernels::KvWriteArgs write{.cache = attention.cache, .num_rows = 16};
  EXPECT_EQ(BytesOf(limits, "write of keys and values"), cuda::PlanKvWrite(write).bytes);
  EXPECT_EQ(BytesOf(limits, "combine"),
            cuda::PlanCombineSlots({.dtype = kB16, .rows = 16, .hidden = 4096, .top_k = 2}).bytes);
  for (const OperationLimit& limit : limits) EXPECT_STRNE(limit.name, "shared experts");
}

TEST(DealPages, NoPageIsTwoSequences) {
  std::vector<int32_t> pages = DealPages(5, 7);
  EXPECT_NE(pages[1], pages[0] + 1);
  std::ranges::sort(pages);
  std::vector<int32_t> all(35);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(pages, all);
}

TEST(LayerLimits, EachOperationIsBoundByTheSlowerOfTheTwo) {
  EXPECT_DOUBLE_EQ(SumOfLimits({{"a", 100, 10}, {"b", 10, 100}, {"c", 30, 0}}, 10.0, 4.0),
                   10.0 + 25.0 + 3.0);
}

}  // namespace
}  // namespace janus::bench
