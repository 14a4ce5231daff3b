#include "common/model/identity.h"

#include <gtest/gtest.h>

#include <functional>

namespace janus {
namespace {

uint64_t IdentityOf(const ModelDescription& model) {
  Fingerprint fingerprint;
  Mix(model, fingerprint);
  return fingerprint.value();
}

ModelDescription Model() {
  ModelDescription model;
  model.dense_layers = {0};
  model.attention.rope.yarn.emplace();
  model.attention.latent.emplace();
  return model;
}

TEST(ModelIdentity, IsTheSameForTheSameDescription) {
  EXPECT_EQ(IdentityOf(Model()), IdentityOf(Model()));
}

TEST(ModelIdentity, DiffersWithEveryField) {
  using M = ModelDescription;
  const std::function<void(M&)> changes[] = {
      [](M& m) { m.family = "mixtral"; },
      [](M& m) { m.architecture = "MixtralForCausalLM"; },
      [](M& m) { m.dtype = DType::kBFloat16; },
      [](M& m) { m.vocab = 1; },
      [](M& m) { m.hidden = 1; },
      [](M& m) { m.layers = 1; },
      [](M& m) { m.dense_layers = {1}; },
      [](M& m) { m.dense_layers.clear(); },
      [](M& m) { m.dense_intermediate = 1; },
      [](M& m) { m.max_positions = 1; },
      [](M& m) { m.norm_epsilon = 1e-6f; },
      [](M& m) { m.tied_embeddings = true; },
      [](M& m) { m.has_fp8_weights = true; },
      [](M& m) { m.mxfp4 = Mxfp4Layout::kCompressedTensors; },
      [](M& m) { m.mxfp4 = Mxfp4Layout::kQuark; },
      [](M& m) { m.mxfp4 = Mxfp4Layout::kGptOss; },
      [](M& m) { m.attention.heads = 1; },
      [](M& m) { m.attention.kv_heads = 1; },
      [](M& m) { m.attention.head_dim = 1; },
      [](M& m) { m.attention.scale = 1.0f; },
      [](M& m) { m.attention.sliding_window = 1; },
      [](M& m) { m.attention.full_layers = {1}; },
      [](M& m) { m.attention.chunk = 1; },
      [](M& m) { m.attention.no_rope_layers = {1}; },
      [](M& m) { m.attention.temperature = TemperatureDescription{}; },
      [](M& m) { m.attention.temperature = TemperatureDescription{.scale = 1.0}; },
      [](M& m) { m.attention.temperature = TemperatureDescription{.floor = 2}; },
      [](M& m) { m.attention.norm = QueryKeyNorm::kEachHead; },
      [](M& m) { m.attention.norm = QueryKeyNorm::kAllHeads; },
      [](M& m) { m.attention.norm = QueryKeyNorm::kTurnedHeads; },
      [](M& m) { m.attention.has_bias = true; },
      [](M& m) { m.attention.has_output_bias = true; },
      [](M& m) { m.attention.has_sinks = true; },
      [](M& m) { m.attention.clip = 1.0f; },
      [](M& m) { m.attention.rope.theta = 1e6; },
      [](M& m) { m.attention.rope.rotary_dim = 1; },
      [](M& m) { m.attention.rope.pairing = RopePairing::kInterleaved; },
      [](M& m) { m.attention.rope.attention_factor = 2.0f; },
      [](M& m) { m.attention.rope.yarn.reset(); },
      [](M& m) { m.attention.rope.llama3 = Llama3RopeDescription{}; },
      [](M& m) { m.attention.rope.llama3 = Llama3RopeDescription{.factor = 2.0}; },
      [](M& m) { m.attention.rope.llama3 = Llama3RopeDescription{.original_positions = 2.0}; },
      [](M& m) { m.attention.rope.llama3 = Llama3RopeDescription{.low_turns = 2.0}; },
      [](M& m) { m.attention.rope.llama3 = Llama3RopeDescription{.high_turns = 2.0}; },
      [](M& m) { m.attention.rope.yarn->factor = 2.0; },
      [](M& m) { m.attention.rope.yarn->original_positions = 1.0; },
      [](M& m) { m.attention.rope.yarn->beta_fast = 1.5; },
      [](M& m) { m.attention.rope.yarn->beta_slow = 1.5; },
      [](M& m) { m.attention.rope.yarn->truncate = false; },
      [](M& m) { m.attention.latent.reset(); },
      [](M& m) { m.moe.score = GateScore::kSigmoid; },
      [](M& m) { m.moe.score = GateScore::kSigmoidOfChosen; },
      [](M& m) { m.attention.latent->rank = 1; },
      [](M& m) { m.attention.latent->value_dim = 1; },
      [](M& m) { m.attention.latent->query_rank = 1; },
      [](M& m) { m.attention.latent->norm_epsilon = 1e-5f; },
      [](M& m) { m.moe.experts = 1; },
      [](M& m) { m.moe.top_k = 1; },
      [](M& m) { m.moe.intermediate = 1; },
      [](M& m) { m.moe.renormalize = true; },
      [](M& m) { m.moe.weight_scale = 2.0f; },
      [](M& m) { m.moe.groups = 2; },
      [](M& m) { m.moe.top_groups = 2; },
      [](M& m) { m.moe.shared_intermediate = 1; },
      [](M& m) { m.moe.has_shared_gate = true; },
      [](M& m) { m.moe.has_logit_bias = true; },
      [](M& m) { m.moe.has_expert_bias = true; },
      [](M& m) { m.moe.weighs_inputs = true; },
      [](M& m) { m.moe.swiglu_limit = 1.0f; },
      [](M& m) { m.moe.swiglu_alpha = 1.0f; },
  };
  std::vector<uint64_t> seen = {IdentityOf(Model())};
  for (const auto& change : changes) {
    ModelDescription model = Model();
    change(model);
    const uint64_t identity = IdentityOf(model);
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_NE(identity, seen[i]) << "change " << seen.size() << " is like change " << i;
    }
    seen.push_back(identity);
  }
}

}  // namespace
}  // namespace janus
