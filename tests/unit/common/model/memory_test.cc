#include "common/model/memory.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

// Mixtral-8x7B-v0.1; its published count is 46,702,792,704 parameters.
ModelDescription Mixtral8x7B() {
  ModelDescription model;
  model.dtype = DType::kBFloat16;
  model.vocab = 32000;
  model.hidden = 4096;
  model.layers = 32;
  model.attention.heads = 32;
  model.attention.kv_heads = 8;
  model.attention.head_dim = 128;
  model.moe.experts = 8;
  model.moe.top_k = 2;
  model.moe.intermediate = 14336;
  return model;
}

TEST(ModelMemory, SumsToMixtralsPublishedParameterCount) {
  const ModelDescription model = Mixtral8x7B();
  const int64_t experts = ExpertWeightBytes(model) * model.moe.experts * model.layers;
  EXPECT_EQ((AttentionWeightBytes(model) + GateWeightBytes(model) + experts) / 2, 46'702'792'704);
}

TEST(ModelMemory, CountsNormsAndBiasesOfQueriesAndKeysAndGatesOfSharedExperts) {
  ModelDescription model = Mixtral8x7B();
  const int64_t plain = AttentionWeightBytes(model);
  const auto more = [&] { return (AttentionWeightBytes(model) - plain) / 2 / 32; };
  model.attention.norm = QueryKeyNorm::kEachHead;
  EXPECT_EQ(more(), 2 * 128);
  model.attention.norm = QueryKeyNorm::kAllHeads;
  EXPECT_EQ(more(), 32 * 128 + 8 * 128);
  model.attention.norm = QueryKeyNorm::kTurnedHeads;
  EXPECT_EQ(more(), 0) << "has no weights";
  model.attention.norm = QueryKeyNorm::kNone;
  model.attention.has_bias = true;
  EXPECT_EQ(more(), 32 * 128 + 2 * 8 * 128);
  model.attention.has_bias = false;
  model.moe.shared_intermediate = 10;
  model.moe.has_shared_gate = true;
  EXPECT_EQ(more(), 3 * 4096 * 10 + 4096);
}

TEST(ModelMemory, CountsSinksAndBiasesOfOutputsGatesAndExperts) {
  ModelDescription model = Mixtral8x7B();
  const int64_t attention = AttentionWeightBytes(model);
  const int64_t gates = GateWeightBytes(model);
  const int64_t expert = ExpertWeightBytes(model);
  model.attention.has_output_bias = true;
  EXPECT_EQ(AttentionWeightBytes(model) - attention, 32 * 4096 * 2);
  model.attention.has_output_bias = false;
  model.attention.has_sinks = true;
  EXPECT_EQ(AttentionWeightBytes(model) - attention, 32 * 32 * 4) << "in float32";
  model.moe.has_logit_bias = true;
  EXPECT_EQ(GateWeightBytes(model) - gates, 32 * 8 * 4);
  model.moe.has_expert_bias = true;
  EXPECT_EQ(ExpertWeightBytes(model) - expert, (2 * 14336 + 4096) * 4);
}

TEST(ModelMemory, CountsAFactorForEachStepOfTheTemperature) {
  ModelDescription model = Mixtral8x7B();
  model.max_positions = 32768;
  const int64_t plain = AttentionWorkspaceBytes(model, 64, 8, 1);
  model.attention.temperature = TemperatureDescription{.scale = 0.1, .floor = 8};
  EXPECT_EQ(AttentionWorkspaceBytes(model, 64, 8, 1) - plain, 4 * 4097);
}

TEST(ModelMemory, CountsKeysAndValuesOfAllLayers) {
  EXPECT_EQ(KvBytesPerToken(Mixtral8x7B()), 2 * 32 * 8 * 128 * 2);
}

TEST(ModelMemory, CountsAScaleForEachPieceOfACacheInFp8) {
  EXPECT_EQ(Fp8KvBytesPerToken(Mixtral8x7B()), 2 * 32 * 8 * (128 + 4));
}

TEST(ModelMemory, CountsTiedEmbeddingsOnce) {
  ModelDescription model = Mixtral8x7B();
  const int64_t untied = AttentionWeightBytes(model);
  model.tied_embeddings = true;
  EXPECT_EQ(untied - AttentionWeightBytes(model), int64_t{32000} * 4096 * 2);
}

TEST(ModelMemory, DoublesInFloat32) {
  ModelDescription model = Mixtral8x7B();
  const int64_t half = ExpertWeightBytes(model);
  model.dtype = DType::kFloat32;
  EXPECT_EQ(ExpertWeightBytes(model), 2 * half);
}

TEST(ModelMemory, CountsExpertsInFp8WithTheirScales) {
  ModelDescription model = Mixtral8x7B();
  const int64_t weights = ExpertWeightBytes(model) / 2;
  const int64_t attention = AttentionWeightBytes(model);
  model.has_fp8_weights = true;
  EXPECT_EQ(ExpertWeightBytes(model), weights + 3 * (4096 / 128) * (14336 / 128) * 4);
  EXPECT_EQ(AttentionWeightBytes(model), attention) << "in bfloat16 once they are loaded";
  model.moe.intermediate = 14337;
  EXPECT_EQ(ExpertWeightBytes(model), 3 * 4096 * 14337 + 3 * (4096 / 128) * 113 * 4);
}

TEST(ModelMemory, TheLargestTensorOfAttention) {
  ModelDescription model = Mixtral8x7B();
  EXPECT_EQ(LargestAttentionTensorBytes(model), int64_t{32000} * 4096 * 2);
  model.vocab = 100;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 4096 * 4096 * 2) << "queries";
  model.dense_intermediate = 5000;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 4096 * 4096 * 2) << "no layer is dense";
  model.dense_layers = {0};
  EXPECT_EQ(LargestAttentionTensorBytes(model), 5000 * 4096 * 2);
  model.moe.shared_intermediate = 6000;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 6000 * 4096 * 2);
  // For latent attention, each part in turn.
  model.moe.shared_intermediate = 0;
  model.dense_layers.clear();
  model.hidden = 1000;
  model.attention.heads = 10;
  model.attention.head_dim = 30;
  model.attention.rope.rotary_dim = 10;
  model.attention.latent = LatentDescription{.rank = 20, .value_dim = 5};
  EXPECT_EQ(LargestAttentionTensorBytes(model), 300 * 1000 * 2) << "queries";
  model.attention.latent->query_rank = 200;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 1000 * 200 * 2) << "down to latent queries";
  model.attention.latent->query_rank = 100;
  model.attention.latent->rank = 110;
  EXPECT_EQ(LargestAttentionTensorBytes(model), (110 + 10) * 1000 * 2) << "down to latent vectors";
  model.attention.latent->value_dim = 15;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 1000 * 150 * 2) << "of attended values";
  model.attention.latent->rank = 1000;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 1010 * 1000 * 2);
  model.hidden = 100;
  EXPECT_EQ(LargestAttentionTensorBytes(model), 10 * (20 + 15) * 1000 * 2) << "up to heads";
}

TEST(ModelMemory, CountsExpertsInMxfp4WithTheirScales) {
  ModelDescription model = Mixtral8x7B();
  const int64_t in_bfloat16 = ExpertWeightBytes(model);
  const int64_t attention = AttentionWeightBytes(model);
  for (const Mxfp4Layout layout :
       {Mxfp4Layout::kCompressedTensors, Mxfp4Layout::kQuark, Mxfp4Layout::kGptOss}) {
    model.mxfp4 = layout;
    EXPECT_EQ(ExpertWeightBytes(model), in_bfloat16 / 4 + in_bfloat16 / 64);
    EXPECT_EQ(AttentionWeightBytes(model), attention);
  }
}

}  // namespace
}  // namespace janus
