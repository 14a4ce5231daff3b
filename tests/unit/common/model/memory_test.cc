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

TEST(ModelMemory, CountsExpertsInMxfp4WithTheirScales) {
  ModelDescription model = Mixtral8x7B();
  const int64_t in_bfloat16 = ExpertWeightBytes(model);
  const int64_t attention = AttentionWeightBytes(model);
  for (const Mxfp4Layout layout : {Mxfp4Layout::kCompressedTensors, Mxfp4Layout::kQuark}) {
    model.mxfp4 = layout;
    EXPECT_EQ(ExpertWeightBytes(model), in_bfloat16 / 4 + in_bfloat16 / 64);
    EXPECT_EQ(AttentionWeightBytes(model), attention);
  }
}

}  // namespace
}  // namespace janus
