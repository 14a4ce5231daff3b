// Families other than Mixtral: the published files of real checkpoints, and what is refused in
// them.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "common/model/config.h"
#include "common/model/identity.h"
#include "common/model/memory.h"
#include "tests/support/published_configs.h"

namespace janus {
namespace {

using test::kDeepseekV2;
using test::kDeepseekV3;

// config.json of gpt-oss-20b as published.
constexpr std::string_view kGptOss = R"({
  "architectures": ["GptOssForCausalLM"],
  "attention_bias": true,
  "attention_dropout": 0.0,
  "eos_token_id": 200002,
  "experts_per_token": 4,
  "head_dim": 64,
  "hidden_act": "silu",
  "hidden_size": 2880,
  "initial_context_length": 4096,
  "initializer_range": 0.02,
  "intermediate_size": 2880,
  "layer_types": ["sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention",
    "sliding_attention", "full_attention"],
  "max_position_embeddings": 131072,
  "model_type": "gpt_oss",
  "num_attention_heads": 64,
  "num_experts_per_tok": 4,
  "num_hidden_layers": 24,
  "num_key_value_heads": 8,
  "num_local_experts": 32,
  "output_router_logits": false,
  "pad_token_id": 199999,
  "quantization_config": {
    "modules_to_not_convert": [
      "model.layers.*.self_attn",
      "model.layers.*.mlp.router",
      "model.embed_tokens",
      "lm_head"
    ],
    "quant_method": "mxfp4"
  },
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "rope_type": "yarn",
    "truncate": false
  },
  "rope_theta": 150000,
  "router_aux_loss_coef": 0.9,
  "sliding_window": 128,
  "swiglu_limit": 7.0,
  "tie_word_embeddings": false,
  "transformers_version": "4.55.0.dev0",
  "use_cache": true,
  "vocab_size": 201088
})";

// config.json of Qwen3-30B-A3B as published.
constexpr std::string_view kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "decoder_sparse_step": 1,
  "eos_token_id": 151645,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "initializer_range": 0.02,
  "intermediate_size": 6144,
  "max_position_embeddings": 40960,
  "max_window_layers": 48,
  "mlp_only_layers": [],
  "model_type": "qwen3_moe",
  "moe_intermediate_size": 768,
  "norm_topk_prob": true,
  "num_attention_heads": 32,
  "num_experts": 128,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 48,
  "num_key_value_heads": 4,
  "output_router_logits": false,
  "rms_norm_eps": 1e-06,
  "rope_scaling": null,
  "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.001,
  "sliding_window": null,
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0",
  "use_cache": true,
  "use_sliding_window": false,
  "vocab_size": 151936
})";

// config.json of Qwen1.5-MoE-A2.7B as published.
constexpr std::string_view kQwen2Moe = R"({
  "architectures": ["Qwen2MoeForCausalLM"],
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "decoder_sparse_step": 1,
  "eos_token_id": 151643,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "initializer_range": 0.02,
  "intermediate_size": 5632,
  "max_position_embeddings": 8192,
  "max_window_layers": 21,
  "model_type": "qwen2_moe",
  "moe_intermediate_size": 1408,
  "norm_topk_prob": false,
  "num_attention_heads": 16,
  "num_experts": 60,
  "num_experts_per_tok": 4,
  "num_hidden_layers": 24,
  "num_key_value_heads": 16,
  "output_router_logits": false,
  "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.001,
  "shared_expert_intermediate_size": 5632,
  "sliding_window": 32768,
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.40.0.dev0",
  "use_cache": true,
  "use_sliding_window": false,
  "vocab_size": 151936
})";

// config.json of GLM-4.5 as published.
constexpr std::string_view kGlm4Moe = R"({
  "architectures": ["Glm4MoeForCausalLM"],
  "attention_bias": true,
  "attention_dropout": 0.0,
  "eos_token_id": [151329, 151336, 151338],
  "first_k_dense_replace": 3,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 5120,
  "initializer_range": 0.02,
  "intermediate_size": 12288,
  "max_position_embeddings": 131072,
  "model_type": "glm4_moe",
  "moe_intermediate_size": 1536,
  "n_group": 1,
  "n_routed_experts": 160,
  "n_shared_experts": 1,
  "norm_topk_prob": true,
  "num_attention_heads": 96,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 92,
  "num_key_value_heads": 8,
  "num_nextn_predict_layers": 1,
  "pad_token_id": 151329,
  "partial_rotary_factor": 0.5,
  "rms_norm_eps": 1e-05,
  "rope_scaling": null,
  "rope_theta": 1000000,
  "routed_scaling_factor": 2.5,
  "tie_word_embeddings": false,
  "topk_group": 1,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.54.0",
  "use_cache": true,
  "use_qk_norm": true,
  "vocab_size": 151552
})";

// config.json of OLMoE-1B-7B-0924 as published.
constexpr std::string_view kOlmoe = R"({
  "architectures": ["OlmoeForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "clip_qkv": null,
  "eos_token_id": 50279,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "initializer_range": 0.02,
  "intermediate_size": 1024,
  "max_position_embeddings": 4096,
  "model_type": "olmoe",
  "norm_topk_prob": false,
  "num_attention_heads": 16,
  "num_experts": 64,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 16,
  "num_key_value_heads": 16,
  "output_router_logits": false,
  "pad_token_id": 1,
  "rms_norm_eps": 1e-05,
  "rope_scaling": null,
  "rope_theta": 10000.0,
  "router_aux_loss_coef": 0.01,
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.43.0.dev0",
  "use_cache": true,
  "vocab_size": 50304
})";

// config.json of MiniMax-M2 as published, with one of its 62 layers in attn_type_list.
// Llama-4-Scout-17B-16E's, without most of its vision model.
constexpr std::string_view kScout = R"({
  "architectures": ["Llama4ForConditionalGeneration"],
  "boi_token_index": 200080,
  "eoi_token_index": 200081,
  "image_token_index": 200092,
  "model_type": "llama4",
  "text_config": {
    "attention_bias": false,
    "attention_chunk_size": 8192,
    "attention_dropout": 0.0,
    "attn_scale": 0.1,
    "attn_temperature_tuning": 4,
    "bos_token_id": 200000,
    "eos_token_id": [200001, 200007, 200008],
    "floor_scale": 8192,
    "for_llm_compressor": false,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 5120,
    "initializer_range": 0.02,
    "interleave_moe_layer_step": 1,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "max_position_embeddings": 10485760,
    "model_type": "llama4_text",
    "no_rope_layers": [],
    "num_attention_heads": 40,
    "num_experts_per_tok": 1,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "output_router_logits": false,
    "pad_token_id": 200018,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
      "factor": 8.0,
      "high_freq_factor": 4.0,
      "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192,
      "rope_type": "llama3"
    },
    "rope_theta": 500000.0,
    "router_aux_loss_coef": 0.001,
    "router_jitter_noise": 0.0,
    "torch_dtype": "bfloat16",
    "use_cache": true,
    "use_qk_norm": true,
    "vocab_size": 202048
  },
  "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0.dev0",
  "vision_config": {
    "hidden_act": "gelu",
    "hidden_size": 1408,
    "image_size": 336,
    "model_type": "llama4_vision_model",
    "num_hidden_layers": 34
  }
})";

constexpr std::string_view kMiniMaxM2 = R"({
  "architectures": ["MiniMaxM2ForCausalLM"],
  "attn_type_list": [1],
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 3072,
  "intermediate_size": 1536,
  "max_position_embeddings": 196608,
  "model_type": "minimax_m2",
  "mtp_transformer_layers": 1,
  "num_attention_heads": 48,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 62,
  "num_key_value_heads": 8,
  "num_local_experts": 256,
  "num_mtp_modules": 3,
  "qk_norm_type": "per_layer",
  "quantization_config": {
    "activation_scheme": "dynamic",
    "fmt": "float8_e4m3fn",
    "quant_method": "fp8",
    "weight_block_size": [128, 128]
  },
  "rms_norm_eps": 1e-06,
  "rope_theta": 5000000,
  "rotary_dim": 64,
  "scoring_func": "sigmoid",
  "shared_intermediate_size": 0,
  "tie_word_embeddings": false,
  "transformers_version": "4.46.1",
  "use_cache": true,
  "use_qk_norm": true,
  "use_routing_bias": true,
  "vocab_size": 200064
})";

// The text with `from` replaced by `to`; the test fails if `from` is not there.
std::string With(std::string_view from, std::string_view to, std::string_view text) {
  std::string out(text);
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) out.replace(at, from.size(), to);
  return out;
}

// DeepSeek-V2-Lite's file: the fields that differ from V2's.
std::string Lite() {
  std::string text(kDeepseekV2);
  for (const auto& [from, to] : {
           std::pair{"\"hidden_size\": 5120", "\"hidden_size\": 2048"},
           {"\"intermediate_size\": 12288", "\"intermediate_size\": 10944"},
           {"\"moe_intermediate_size\": 1536", "\"moe_intermediate_size\": 1408"},
           {"\"n_group\": 8", "\"n_group\": 1"},
           {"\"n_routed_experts\": 160", "\"n_routed_experts\": 64"},
           {"\"num_attention_heads\": 128", "\"num_attention_heads\": 16"},
           {"\"num_hidden_layers\": 60", "\"num_hidden_layers\": 27"},
           {"\"num_key_value_heads\": 128", "\"num_key_value_heads\": 16"},
           {"\"q_lora_rank\": 1536", "\"q_lora_rank\": null"},
           {"\"mscale\": 1.0", "\"mscale\": 0.707"},
           {"\"mscale_all_dim\": 1.0", "\"mscale_all_dim\": 0.707"},
           {"\"routed_scaling_factor\": 16.0", "\"routed_scaling_factor\": 1.0"},
           {"\"topk_group\": 3", "\"topk_group\": 1"},
           {"\"group_limited_greedy\"", "\"greedy\""},
       }) {
    text = With(from, to, text);
  }
  return text;
}

// All weights counted in Float32, without scales.
int64_t Parameters(ModelDescription model) {
  model.dtype = DType::kFloat32;
  model.has_fp8_weights = false;
  model.mxfp4 = Mxfp4Layout::kNone;
  const int64_t experts = ExpertWeightBytes(model) * model.moe.experts * model.moe_layers();
  return (AttentionWeightBytes(model) + GateWeightBytes(model) + experts) / SizeOf(model.dtype);
}

TEST(DeepseekV2Config, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kDeepseekV2);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const AttentionDescription& a = model->attention;
  ASSERT_TRUE(a.latent.has_value());
  EXPECT_EQ(a.heads, 128);
  EXPECT_EQ(a.kv_heads, 128);
  EXPECT_EQ(a.head_dim, 192);
  EXPECT_EQ(a.nope_dim(), 128);
  EXPECT_EQ(a.latent->rank, 512);
  EXPECT_EQ(a.latent->query_rank, 1536);
  EXPECT_EQ(a.latent->value_dim, 128);
  EXPECT_EQ(a.latent->norm_epsilon, 1e-6f);
  EXPECT_EQ(a.rope.rotary_dim, 64);
  EXPECT_EQ(a.rope.pairing, RopePairing::kInterleaved);
  ASSERT_TRUE(a.rope.yarn.has_value());
  EXPECT_EQ(a.rope.yarn->factor, 40.0);
  EXPECT_EQ(a.rope.yarn->original_positions, 4096.0);
  // Both scales are equal, so the rotation keeps its length and the softmax takes the square.
  EXPECT_FLOAT_EQ(a.rope.attention_factor, 1.0f);
  const double mscale = 0.1 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(a.scale, static_cast<float>(mscale * mscale / std::sqrt(192.0)));
  EXPECT_EQ(model->moe.experts, 160);
  EXPECT_EQ(model->moe.top_k, 6);
  EXPECT_EQ(model->moe.groups, 8);
  EXPECT_EQ(model->moe.top_groups, 3);
  EXPECT_EQ(model->moe.weight_scale, 16.0f);
  EXPECT_FALSE(model->moe.renormalize);
  EXPECT_EQ(model->moe.shared_intermediate, 3072);
  EXPECT_EQ(model->dense_layers, std::vector<int>{0});
  EXPECT_EQ(model->dense_intermediate, 12288);
  EXPECT_EQ(model->moe_layers(), 59);
}

TEST(DeepseekV2Config, ReadsLiteWithoutALatentQueryOrGroups) {
  const auto model = ParseModelConfig(Lite());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.latent->query_rank, 0);
  EXPECT_EQ(model->moe.groups, 1);
  EXPECT_EQ(model->moe.top_groups, 1);
  EXPECT_EQ(model->moe.weight_scale, 1.0f);
  const double mscale = 0.0707 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(model->attention.scale, static_cast<float>(mscale * mscale / std::sqrt(192.0)));
}

TEST(DeepseekV2Config, ReadsRopeParametersAsTransformers5WritesThem) {
  std::string text = With("\"rope_theta\": 10000,", "", kDeepseekV2);
  text = With("\"rope_scaling\": {", "\"rope_parameters\": {\"rope_theta\": 10000.0,", text);
  text = With("\"type\": \"yarn\"", "\"rope_type\": \"yarn\"", text);
  const auto published = ParseModelConfig(kDeepseekV2);
  const auto model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.scale, published->attention.scale);
  EXPECT_EQ(model->attention.rope.theta, 10000.0);
  EXPECT_EQ(model->attention.rope.yarn->factor, 40.0);
  EXPECT_EQ(model->attention.rope.attention_factor, published->attention.rope.attention_factor);
}

// Like the published code; transformers differs here.
TEST(DeepseekV2Config, DividesByTheSumInsteadOfScaling) {
  const auto model =
      ParseModelConfig(With("\"norm_topk_prob\": false", "\"norm_topk_prob\": true", kDeepseekV2));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE(model->moe.renormalize);
  EXPECT_EQ(model->moe.weight_scale, 1.0f);
}

TEST(DeepseekV2Config, EveryNthLayerMayBeDense) {
  std::string text = With("\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2", kDeepseekV2);
  text = With("\"num_hidden_layers\": 60", "\"num_hidden_layers\": 6", text);
  const auto model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->dense_layers, (std::vector<int>{0, 1, 3, 5}));
  EXPECT_TRUE(model->IsDense(3));
  EXPECT_FALSE(model->IsDense(4));
}

TEST(DeepseekV3Config, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kDeepseekV3);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->family, "deepseek_v3");
  EXPECT_TRUE(model->has_fp8_weights);
  EXPECT_EQ(ExpertType(*model), DType::kFloat8E4M3);
  const AttentionDescription& a = model->attention;
  ASSERT_TRUE(a.latent.has_value());
  EXPECT_EQ(a.heads, 128);
  EXPECT_EQ(a.head_dim, 192);
  EXPECT_EQ(a.latent->rank, 512);
  EXPECT_EQ(a.latent->query_rank, 1536);
  EXPECT_EQ(a.latent->norm_epsilon, 1e-6f);
  EXPECT_EQ(a.rope.pairing, RopePairing::kInterleaved);
  EXPECT_FLOAT_EQ(a.rope.attention_factor, 1.0f);
  const double mscale = 0.1 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(a.scale, static_cast<float>(mscale * mscale / std::sqrt(192.0)));
  EXPECT_EQ(model->moe.score, GateScore::kSigmoid);
  EXPECT_TRUE(model->moe.has_gate_bias());
  EXPECT_EQ(model->moe.experts, 256);
  EXPECT_EQ(model->moe.top_k, 8);
  EXPECT_EQ(model->moe.intermediate, 2048);
  EXPECT_EQ(model->moe.groups, 8);
  EXPECT_EQ(model->moe.top_groups, 4);
  EXPECT_TRUE(model->moe.renormalize);
  EXPECT_EQ(model->moe.weight_scale, 2.5f);
  EXPECT_EQ(model->moe.shared_intermediate, 2048);
  EXPECT_EQ(model->layers, 61) << "the layer that predicts a second token is none of them";
  EXPECT_EQ(model->dense_layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(model->dense_intermediate, 18432);
}

// The defaults of the configuration class for each optional field.
TEST(DeepseekV3Config, TakesItsOwnDefaults) {
  std::string text(kDeepseekV3);
  for (const std::string_view field : {"\"first_k_dense_replace\": 3,",
                                       "\"kv_lora_rank\": 512,",
                                       "\"moe_intermediate_size\": 2048,",
                                       "\"moe_layer_freq\": 1,",
                                       "\"n_group\": 8,",
                                       "\"n_routed_experts\": 256,",
                                       "\"n_shared_experts\": 1,",
                                       "\"norm_topk_prob\": true,",
                                       "\"num_experts_per_tok\": 8,",
                                       "\"num_key_value_heads\": 128,",
                                       "\"num_nextn_predict_layers\": 1,",
                                       "\"qk_nope_head_dim\": 128,",
                                       "\"qk_rope_head_dim\": 64,",
                                       "\"rms_norm_eps\": 1e-06,",
                                       "\"rope_theta\": 10000,",
                                       "\"routed_scaling_factor\": 2.5,",
                                       "\"scoring_func\": \"sigmoid\",",
                                       "\"topk_group\": 4,",
                                       "\"topk_method\": \"noaux_tc\",",
                                       "\"v_head_dim\": 128,"}) {
    text = With(field, "", text);
  }
  const auto with = ParseModelConfig(kDeepseekV3);
  const auto without = ParseModelConfig(text);
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  const auto print = [](const ModelDescription& model) {
    Fingerprint fingerprint;
    Mix(model, fingerprint);
    return fingerprint.value();
  };
  EXPECT_EQ(print(*without), print(*with));
}

// Moonlight (Moonshot AI 2025) belongs to V3's family.
TEST(DeepseekV3Config, ReadsOneWithoutALatentQueryOrGroups) {
  std::string text = With("\"q_lora_rank\": 1536", "\"q_lora_rank\": null", kDeepseekV3);
  text = With("\"n_group\": 8", "\"n_group\": 1", text);
  text = With("\"topk_group\": 4", "\"topk_group\": 1", text);
  const auto model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.latent->query_rank, 0);
  EXPECT_EQ(model->moe.groups, 1);
  EXPECT_EQ(model->moe.top_groups, 1);
}

TEST(DeepseekV3Config, ScalesWhetherRenormalizedOrNot) {
  for (const auto& [from, to, renormalize] :
       {std::tuple("\"norm_topk_prob\": true", "\"norm_topk_prob\": false", false),
        // Like the published code; transformers differs here.
        {"\"num_experts_per_tok\": 8", "\"num_experts_per_tok\": 1", false},
        {"\"num_experts_per_tok\": 8", "\"num_experts_per_tok\": 2", true}}) {
    const auto model = ParseModelConfig(With(from, to, kDeepseekV3));
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(model->moe.renormalize, renormalize) << to;
    EXPECT_EQ(model->moe.weight_scale, 2.5f) << to;
  }
}

TEST(DeepseekV3Config, TurnsPairsAsTransformersIsTold) {
  const auto model = ParseModelConfig(
      With("\"rope_theta\"", "\"rope_interleave\": false, \"rope_theta\"", kDeepseekV3));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.rope.pairing, RopePairing::kHalves);
}

TEST(Qwen2MoeConfig, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kQwen2Moe);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE(model->attention.has_bias) << "transformers' default; the file does not say";
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kNone);
  EXPECT_EQ(model->attention.head_dim, 128);
  EXPECT_EQ(model->attention.sliding_window, 0);
  EXPECT_EQ(model->moe.experts, 60);
  EXPECT_EQ(model->moe.top_k, 4);
  EXPECT_EQ(model->moe.intermediate, 1408);
  EXPECT_FALSE(model->moe.renormalize);
  EXPECT_EQ(model->moe.shared_intermediate, 5632);
  EXPECT_TRUE(model->moe.has_shared_gate);
  EXPECT_TRUE(model->dense_layers.empty());
}

TEST(Qwen2MoeConfig, BiasesMayBeSwitchedOff) {
  const auto model =
      ParseModelConfig(With("\"use_cache\": true", "\"qkv_bias\": false", kQwen2Moe));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_FALSE(model->attention.has_bias);
}

TEST(Glm4MoeConfig, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kGlm4Moe);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE(model->attention.has_bias);
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kEachHead);
  EXPECT_EQ(model->attention.head_dim, 128);
  EXPECT_EQ(model->attention.rope.rotary_dim, 64);
  EXPECT_EQ(model->attention.rope.pairing, RopePairing::kHalves);
  EXPECT_FLOAT_EQ(model->attention.scale, 1.0f / std::sqrt(128.0f));
  EXPECT_EQ(model->moe.score, GateScore::kSigmoid);
  EXPECT_EQ(model->moe.experts, 160);
  EXPECT_EQ(model->moe.groups, 1);
  EXPECT_EQ(model->moe.weight_scale, 2.5f);
  EXPECT_TRUE(model->moe.renormalize);
  EXPECT_EQ(model->moe.shared_intermediate, 1536);
  EXPECT_EQ(model->dense_layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(model->dense_intermediate, 12288);
}

// GLM-4.5-Air's file differs so.
TEST(Glm4MoeConfig, NormsAndBiasesMayBeSwitchedOff) {
  const auto model =
      ParseModelConfig(With("\"attention_bias\": true", "\"attention_bias\": false",
                            With("\"use_qk_norm\": true", "\"use_qk_norm\": false", kGlm4Moe)));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_FALSE(model->attention.has_bias);
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kNone);
}

TEST(ModelConfig, NullGroupsAreNoGroups) {
  for (const std::string_view published : {std::string_view(kGlm4Moe), kDeepseekV3, kDeepseekV2}) {
    for (const char* groups : {"\"n_group\": 8", "\"n_group\": 1"}) {
      if (published.find(groups) == std::string_view::npos) continue;
      const auto model = ParseModelConfig(With(groups, "\"n_group\": null", published));
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      EXPECT_EQ(model->moe.groups, 1);
      EXPECT_EQ(model->moe.top_groups, 1);
    }
  }
}

TEST(OlmoeConfig, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kOlmoe);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kAllHeads);
  EXPECT_EQ(model->attention.clip, 0.0f);
  EXPECT_EQ(model->moe.experts, 64);
  EXPECT_EQ(model->moe.intermediate, 1024);
  EXPECT_FALSE(model->moe.renormalize);
  const auto clipped = ParseModelConfig(With("\"clip_qkv\": null", "\"clip_qkv\": 8.0", kOlmoe));
  ASSERT_TRUE(clipped.ok()) << clipped.status().ToString();
  EXPECT_EQ(clipped->attention.clip, 8.0f);
}

TEST(OlmoeConfig, HasAsManyKeyHeadsAsQueryHeadsIfItDoesNotSay) {
  const auto model = ParseModelConfig(
      With("\"num_key_value_heads\": 16", "\"num_key_value_heads\": null", kOlmoe));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.kv_heads, 16);
}

TEST(MiniMaxM2Config, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kMiniMaxM2);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kAllHeads);
  EXPECT_EQ(model->attention.head_dim, 128);
  EXPECT_EQ(model->attention.rope.rotary_dim, 64);
  EXPECT_FALSE(model->attention.has_bias);
  EXPECT_EQ(model->moe.score, GateScore::kSigmoid);
  EXPECT_EQ(model->moe.groups, 1);
  EXPECT_TRUE(model->moe.renormalize);
  EXPECT_EQ(model->moe.weight_scale, 1.0f);
  EXPECT_EQ(model->moe.shared_intermediate, 0);
  EXPECT_TRUE(model->dense_layers.empty());
}

TEST(Qwen3MoeConfig, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kQwen3Moe);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kEachHead);
  EXPECT_FALSE(model->attention.latent.has_value());
  EXPECT_EQ(model->attention.kv_heads, 4);
  EXPECT_EQ(model->attention.head_dim, 128);
  EXPECT_EQ(model->attention.sliding_window, 0);
  EXPECT_EQ(model->moe.experts, 128);
  EXPECT_EQ(model->moe.top_k, 8);
  EXPECT_EQ(model->moe.intermediate, 768);
  EXPECT_TRUE(model->moe.renormalize);
  EXPECT_EQ(model->moe.shared_intermediate, 0);
  EXPECT_TRUE(model->dense_layers.empty());
}

TEST(Qwen3MoeConfig, LayersAreDenseByListAndStep) {
  std::string text = With("\"num_hidden_layers\": 48", "\"num_hidden_layers\": 6", kQwen3Moe);
  text = With("\"mlp_only_layers\": []", "\"mlp_only_layers\": [3]", text);
  text = With("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2", text);
  const auto model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->dense_layers, (std::vector<int>{0, 2, 3, 4}));
  EXPECT_EQ(model->dense_intermediate, 6144);
}

TEST(GptOssConfig, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kGptOss);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->family, "gpt_oss");
  EXPECT_EQ(model->dtype, DType::kBFloat16) << "the file does not say";
  EXPECT_EQ(model->mxfp4, Mxfp4Layout::kGptOss);
  EXPECT_EQ(ExpertType(*model), DType::kMxfp4);
  const AttentionDescription& a = model->attention;
  EXPECT_EQ(a.heads, 64);
  EXPECT_EQ(a.head_dim, 64);
  EXPECT_TRUE(a.has_bias && a.has_output_bias && a.has_sinks);
  for (int layer = 0; layer < model->layers; ++layer) {
    EXPECT_EQ(a.WindowOf(layer), layer % 2 == 0 ? 128 : 0) << layer;
  }
  EXPECT_EQ(a.rope.theta, 150000.0);
  ASSERT_TRUE(a.rope.yarn.has_value());
  EXPECT_EQ(a.rope.yarn->factor, 32.0);
  EXPECT_EQ(a.rope.yarn->original_positions, 4096.0);
  EXPECT_EQ(a.rope.yarn->beta_fast, 32.0);
  EXPECT_EQ(a.rope.yarn->beta_slow, 1.0);
  EXPECT_FALSE(a.rope.yarn->truncate);
  EXPECT_FLOAT_EQ(a.rope.attention_factor, static_cast<float>(0.1 * std::log(32.0) + 1.0));
  EXPECT_EQ(model->moe.experts, 32);
  EXPECT_EQ(model->moe.top_k, 4);
  EXPECT_EQ(model->moe.intermediate, 2880);
  EXPECT_EQ(model->moe.score, GateScore::kSoftmax);
  EXPECT_TRUE(model->moe.renormalize) << "a softmax over the chosen logits";
  EXPECT_TRUE(model->moe.has_logit_bias && model->moe.has_gate_bias());
  EXPECT_TRUE(model->moe.has_expert_bias);
  EXPECT_EQ(model->moe.swiglu_limit, 7.0f);
  EXPECT_EQ(model->moe.swiglu_alpha, 1.702f);
  EXPECT_TRUE(model->dense_layers.empty());
}

TEST(GptOssConfig, TakesTransformersDefaultsForAbsentFields) {
  const auto whole = ParseModelConfig(kGptOss);
  const auto bare = ParseModelConfig(R"({"model_type": "gpt_oss", "vocab_size": 201088,
      "hidden_size": 2880, "num_hidden_layers": 24, "max_position_embeddings": 131072,
      "num_attention_heads": 64, "head_dim": 64, "num_local_experts": 32,
      "quantization_config": {"quant_method": "mxfp4"}})");
  ASSERT_TRUE(bare.ok()) << bare.status().ToString();
  Fingerprint of_bare, of_whole;
  Mix(*bare, of_bare);
  Mix(*whole, of_whole);
  EXPECT_EQ(of_bare.value(), of_whole.value());
}

TEST(GptOssConfig, ReadsTheUnquantizedFile) {
  std::string text = With("\"quantization_config\"", "\"was_quantized\"", kGptOss);
  const auto model =
      ParseModelConfig(With("\"attention_bias\": true", "\"attention_bias\": false", text));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->mxfp4, Mxfp4Layout::kNone);
  EXPECT_EQ(model->dtype, DType::kBFloat16);
  EXPECT_FALSE(model->attention.has_bias || model->attention.has_output_bias);
  EXPECT_TRUE(model->attention.has_sinks);
}

// Llama-4-Maverick-17B-128E's: Scout's with these fields.
std::string Maverick() {
  std::string text(kScout);
  for (const auto& [from, to] : std::map<std::string, std::string>{
           {"\"interleave_moe_layer_step\": 1", "\"interleave_moe_layer_step\": 2"},
           {"\"max_position_embeddings\": 10485760", "\"max_position_embeddings\": 1048576"},
           {"\"num_local_experts\": 16", "\"num_local_experts\": 128"},
           {"\"rope_scaling\"", "\"rope_scaling_of_scout\""},
           {"\"use_qk_norm\": true", "\"use_qk_norm\": false"}}) {
    text = With(from, to, text);
  }
  return text;
}

TEST(Llama4Config, ReadsThePublishedFile) {
  const auto model = ParseModelConfig(kScout);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->family, "llama4");
  EXPECT_EQ(model->dtype, DType::kBFloat16);
  EXPECT_EQ(model->max_positions, 10485760);
  const AttentionDescription& a = model->attention;
  EXPECT_EQ(a.heads, 40);
  EXPECT_EQ(a.kv_heads, 8);
  EXPECT_EQ(a.norm, QueryKeyNorm::kTurnedHeads);
  EXPECT_FALSE(a.has_bias || a.has_output_bias);
  for (int layer = 0; layer < model->layers; ++layer) {
    EXPECT_EQ(a.HasRope(layer), layer % 4 != 3) << layer;
    EXPECT_EQ(a.ChunkOf(layer), layer % 4 != 3 ? 8192 : 0) << layer;
    EXPECT_EQ(a.WindowOf(layer), 0);
  }
  ASSERT_TRUE(a.temperature.has_value()) << "4 is true";
  EXPECT_EQ(a.temperature->scale, 0.1);
  EXPECT_EQ(a.temperature->floor, 8192);
  EXPECT_EQ(a.rope.pairing, RopePairing::kInterleaved);
  EXPECT_EQ(a.rope.theta, 500000.0);
  ASSERT_TRUE(a.rope.llama3.has_value());
  EXPECT_EQ(a.rope.llama3->factor, 8.0);
  EXPECT_EQ(a.rope.llama3->low_turns, 1.0);
  EXPECT_EQ(a.rope.llama3->high_turns, 4.0);
  EXPECT_EQ(a.rope.llama3->original_positions, 8192.0);
  EXPECT_EQ(a.rope.attention_factor, 1.0f);
  EXPECT_EQ(model->moe.experts, 16);
  EXPECT_EQ(model->moe.top_k, 1);
  EXPECT_EQ(model->moe.intermediate, 8192);
  EXPECT_EQ(model->moe.shared_intermediate, 8192);
  EXPECT_EQ(model->moe.score, GateScore::kSigmoidOfChosen);
  EXPECT_TRUE(model->moe.weighs_inputs);
  EXPECT_FALSE(model->moe.renormalize || model->moe.has_gate_bias());
  EXPECT_TRUE(model->dense_layers.empty());
}

TEST(Llama4Config, MaverickHasDenseLayersAndNoNorms) {
  const auto model = ParseModelConfig(Maverick());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->moe_layers(), 24);
  EXPECT_TRUE(model->IsDense(0) && !model->IsDense(1));
  EXPECT_EQ(model->dense_intermediate, 16384);
  EXPECT_EQ(model->attention.norm, QueryKeyNorm::kNone);
  EXPECT_FALSE(model->attention.rope.llama3.has_value());
}

TEST(Llama4Config, ListsOfLayersReplaceTheirSteps) {
  std::string text = With("\"num_hidden_layers\": 48", "\"num_hidden_layers\": 4", kScout);
  text = With("\"no_rope_layers\": []",
              R"("no_rope_layers": [0, 1, 1, 0, 1], "moe_layers": [0, 3], "layer_types":
              ["full_attention", "full_attention", "chunked_attention", "chunked_attention"])",
              text);
  const auto model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.no_rope_layers, (std::vector<int>{0, 3}));
  EXPECT_EQ(model->attention.full_layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(model->dense_layers, (std::vector<int>{1, 2}));
}

TEST(Llama4Config, TakesTransformersDefaultsForAbsentFields) {
  const auto whole = ParseModelConfig(kScout);
  const auto bare = ParseModelConfig(R"({"model_type": "llama4", "dtype": "bfloat16",
      "text_config": {"vocab_size": 202048, "hidden_size": 5120, "num_hidden_layers": 48,
      "max_position_embeddings": 10485760, "num_attention_heads": 40, "head_dim": 128,
      "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0,
      "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}}})");
  ASSERT_TRUE(bare.ok()) << bare.status().ToString();
  Fingerprint of_bare, of_whole;
  Mix(*bare, of_bare);
  Mix(*whole, of_whole);
  EXPECT_EQ(of_bare.value(), of_whole.value());
}

TEST(Llama4Config, TemperatureTuningIsABooleanOrAnInteger) {
  for (const auto& [value, is_on] :
       {std::pair("true", true), {"false", false}, {"0", false}, {"1", true}, {"null", true}}) {
    const auto model =
        ParseModelConfig(With("\"attn_temperature_tuning\": 4",
                              "\"attn_temperature_tuning\": " + std::string(value), kScout));
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(model->attention.temperature.has_value(), is_on) << value;
  }
}

// Kimi-K2-Instruct's config.json: DeepSeek-V3's with these fields.
std::string KimiK2() {
  std::string text(kDeepseekV3);
  for (const auto& [from, to] : std::map<std::string, std::string>{
           {"\"model_type\": \"deepseek_v3\"", "\"model_type\": \"kimi_k2\""},
           {"\"first_k_dense_replace\": 3", "\"first_k_dense_replace\": 1"},
           {"\"max_position_embeddings\": 163840", "\"max_position_embeddings\": 131072"},
           {"\"n_group\": 8", "\"n_group\": 1"},
           {"\"n_routed_experts\": 256", "\"n_routed_experts\": 384"},
           {"\"num_attention_heads\": 128", "\"num_attention_heads\": 64"},
           {"\"num_key_value_heads\": 128", "\"num_key_value_heads\": 64"},
           {"\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0"},
           {"\"routed_scaling_factor\": 2.5", "\"routed_scaling_factor\": 2.827"},
           {"\"topk_group\": 4", "\"topk_group\": 1"},
           {"\"beta_fast\": 32", "\"beta_fast\": 1.0"},
           {"\"factor\": 40", "\"factor\": 32.0"},
           {"\"rope_theta\": 10000", "\"rope_theta\": 50000.0"},
           {"\"vocab_size\": 129280", "\"vocab_size\": 163840"}}) {
    text = With(from, to, text);
  }
  return text;
}

TEST(KimiK2, IsReadAsDeepseekV3) {
  const auto model = ParseModelConfig(KimiK2());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->moe.experts, 384);
  EXPECT_EQ(model->moe.groups, 1);
  EXPECT_EQ(model->moe_layers(), 60);
  EXPECT_TRUE(model->has_fp8_weights);
}

TEST(KimiK2, FourBitIntegersAreRefusedByName) {
  const auto model = ParseModelConfig(
      With("\"quant_method\": \"fp8\"",
           R"("quant_method": "compressed-tensors", "format": "pack-quantized")", KimiK2()));
  EXPECT_NE(model.status().message().find("'pack-quantized' is not supported"), std::string::npos)
      << model.status().message();
}

// The counts that the hub shows for the published checkpoints.
TEST(ModelMemory, SumsToThePublishedParameterCounts) {
  EXPECT_EQ(Parameters(*ParseModelConfig(kDeepseekV2)), 235'741'434'880);
  EXPECT_EQ(Parameters(*ParseModelConfig(Lite())), 15'706'484'224);
  // Of the main model, without the 11.5 B of the layer that predicts a second token.
  EXPECT_EQ(Parameters(*ParseModelConfig(kDeepseekV3)), 671'026'419'200);
  EXPECT_EQ(Parameters(*ParseModelConfig(KimiK2())), 1'026'408'232'448);
  EXPECT_EQ(Parameters(*ParseModelConfig(kQwen3Moe)), 30'532'122'624);
  EXPECT_EQ(Parameters(*ParseModelConfig(kQwen2Moe)), 14'315'784'192);
  EXPECT_EQ(Parameters(*ParseModelConfig(kOlmoe)), 6'919'161'856);
  EXPECT_EQ(Parameters(*ParseModelConfig(kGptOss)), 20'914'757'184);
  // The hub's counts include the vision model and the projection between both.
  constexpr int64_t kVision = 871'932'416;
  EXPECT_EQ(Parameters(*ParseModelConfig(kScout)) + kVision, 108'641'793'536);
  EXPECT_EQ(Parameters(*ParseModelConfig(Maverick())) + kVision, 401'583'781'376);
  // gpt-oss-120b has the same file except for these and the types of its layers.
  std::string large = With("\"num_hidden_layers\": 24", "\"num_hidden_layers\": 36", kGptOss);
  large = With("\"num_local_experts\": 32", "\"num_local_experts\": 128", large);
  large = With("\"layer_types\"", "\"layer_types_of_20b\"", large);
  EXPECT_EQ(Parameters(*ParseModelConfig(large)), 116'829'156'672);
  // The hub's count includes the layer that predicts a second token, with an embedding and a head
  // of its own.
  const ModelDescription glm = *ParseModelConfig(kGlm4Moe);
  const int64_t h = glm.hidden;
  const int64_t attention = h * 128 * (2 * 96 + 2 * 8) + 128 * (96 + 2 * 8) + 2 * 128 + 2 * h;
  const int64_t experts = 161 * 3 * h * 1536 + 160 * (h + 1);
  EXPECT_EQ(Parameters(glm) + attention + experts + h * 2 * h + 3 * h + 2 * h * 151552,
            358'337'791'296);
  // And this one a scale for each 128 x 128 weights in fp8.
  const int64_t scales = 256 * 3 * 24 * 12 + 2 * 24 * 48 + 2 * 24 * 8;
  EXPECT_EQ(Parameters(*ParseModelConfig(kMiniMaxM2)) + 62 * scales, 228'703'644'928);
}

TEST(ModelMemory, CountsGatesBiasesInFloat32) {
  ModelDescription model = *ParseModelConfig(kDeepseekV3);
  const int64_t with = GateWeightBytes(model);
  model.moe.score = GateScore::kSoftmax;
  EXPECT_EQ(GateWeightBytes(model), int64_t{58} * 256 * 7168 * 2);
  EXPECT_EQ(with - GateWeightBytes(model), int64_t{58} * 256 * 4);
}

TEST(ModelMemory, CountsALatentCacheOncePerPosition) {
  EXPECT_EQ(KvBytesPerToken(*ParseModelConfig(kDeepseekV2)), (512 + 64) * 2 * 60);
  EXPECT_EQ(Fp8KvBytesPerToken(*ParseModelConfig(kDeepseekV2)), 656 * 60);
}

struct Refusal {
  const char* name;
  std::string_view base;
  const char* from;
  const char* to;
  const char* message;  // a part that names field, value and the expected one
};
void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class FamilyConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(FamilyConfigRefuses, NamingTheField) {
  const Refusal& r = GetParam();
  const auto model = ParseModelConfig(With(r.from, r.to, r.base));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(model.status().message().find(r.message), std::string::npos)
      << model.status().ToString();
}

INSTANTIATE_TEST_SUITE_P(
    All, FamilyConfigRefuses,
    testing::Values(
        Refusal{"LatentTooWide", kDeepseekV2, "\"kv_lora_rank\": 512", "\"kv_lora_rank\": 513",
                "kv_lora_rank: is 513; want an integer in 1..512"},
        Refusal{"HeadTooWide", kDeepseekV2, "\"qk_nope_head_dim\": 128",
                "\"qk_nope_head_dim\": 200",
                "qk_nope_head_dim: is 200 beside qk_rope_head_dim = 64; want at most 256 together"},
        Refusal{"OddRope", kDeepseekV2, "\"qk_rope_head_dim\": 64", "\"qk_rope_head_dim\": 63",
                "qk_rope_head_dim: is 63; rope turns pairs"},
        Refusal{"FewerKvHeads", kDeepseekV2, "\"num_key_value_heads\": 128",
                "\"num_key_value_heads\": 16",
                "num_key_value_heads: is 16; latent attention wants num_attention_heads = 128"},
        Refusal{"AnotherChoice", kDeepseekV2, "group_limited_greedy", "noaux_tc",
                "topk_method: 'noaux_tc' is not supported; supported: greedy, "
                "group_limited_greedy"},
        Refusal{"AnotherScore", kDeepseekV2, "\"softmax\"", "\"sigmoid\"",
                "scoring_func: 'sigmoid' is not supported; supported: softmax"},
        Refusal{"AnotherChoiceThanV3s", kDeepseekV3, "noaux_tc", "group_limited_greedy",
                "topk_method: 'group_limited_greedy' is not supported; supported: noaux_tc"},
        Refusal{"AnotherScoreThanV3s", kDeepseekV3, "\"sigmoid\"", "\"softmax\"",
                "scoring_func: 'softmax' is not supported; supported: sigmoid"},
        Refusal{"V3sUnevenGroups", kDeepseekV3, "\"n_group\": 8", "\"n_group\": 7",
                "n_group: is 7, which does not divide n_routed_experts = 256"},
        Refusal{"MoreOfV3sGroups", kDeepseekV3, "\"topk_group\": 4", "\"topk_group\": 9",
                "topk_group: is 9, more than n_group = 8"},
        Refusal{"FewerGroupsThanAreKept", kDeepseekV3, "\"n_group\": 8", "\"n_group\": 2",
                "topk_group: is 4, more than n_group = 2"},
        Refusal{"V3sTooFewInTheGroups", kDeepseekV3, "\"n_routed_experts\": 256",
                "\"n_routed_experts\": 8", "n_group: is n_routed_experts"},
        Refusal{"V3sFewInTheGroups", kDeepseekV3, "\"topk_group\": 4,\n  \"topk_method\"",
                "\"topk_group\": 1, \"n_group\": 64,\n  \"topk_method\"",
                "topk_group: is 1: 4 experts to choose 8 from"},
        Refusal{"UnevenGroups", kDeepseekV2, "\"n_group\": 8", "\"n_group\": 7",
                "n_group: is 7, which does not divide n_routed_experts = 160"},
        Refusal{"TooFewInTheGroups", kDeepseekV2, "\"n_routed_experts\": 160",
                "\"n_routed_experts\": 8", "topk_group: is 3: 3 experts to choose 6 from"},
        Refusal{"MoreGroupsThanThereAre", kDeepseekV2, "\"topk_group\": 3", "\"topk_group\": 9",
                "topk_group: is 9; want an integer in 1..8"},
        Refusal{"NoExpertLayer", kDeepseekV2, "\"first_k_dense_replace\": 1",
                "\"first_k_dense_replace\": 60",
                "first_k_dense_replace: leaves no layer with experts"},
        Refusal{"NoExperts", kDeepseekV2, "\"n_routed_experts\": 160", "\"n_routed_experts\": null",
                "n_routed_experts: is missing"},
        Refusal{"YarnWithoutItsLength", kDeepseekV2, "\"original_max_position_embeddings\": 4096,",
                "", "rope_scaling.original_max_position_embeddings: is missing; yarn needs it"},
        Refusal{"YarnThatShrinks", kDeepseekV2, "\"factor\": 40", "\"factor\": 0.5",
                "rope_scaling.factor: is 0.5"},
        Refusal{"YarnBetasTurnedRound", kDeepseekV2, "\"beta_slow\": 1", "\"beta_slow\": 64",
                "rope_scaling.beta_slow: is larger than beta_fast"},
        Refusal{"Qwen2sSlidingWindow", kQwen2Moe, "\"use_sliding_window\": false",
                "\"use_sliding_window\": true", "use_sliding_window: is true"},
        Refusal{"GlmsUnevenGroups", kGlm4Moe, "\"n_group\": 1", "\"n_group\": 7",
                "n_group: is 7, which does not divide n_routed_experts = 160"},
        Refusal{"OddPartOfAHead", kGlm4Moe, "\"partial_rotary_factor\": 0.5",
                "\"partial_rotary_factor\": 0.06",
                "partial_rotary_factor: gives 7 of 128 elements"},
        Refusal{"OlmoesBias", kOlmoe, "\"attention_bias\": false", "\"attention_bias\": true",
                "attention_bias: is true; biases are not supported"},
        Refusal{"OlmoesHeads", kOlmoe, "\"use_cache\": true", "\"head_dim\": 64",
                "head_dim: is 64; this family wants hidden_size / num_attention_heads"},
        Refusal{"ClipOfNothing", kOlmoe, "\"clip_qkv\": null", "\"clip_qkv\": 0.0",
                "clip_qkv: is 0.0; want a number"},
        Refusal{"NormsOfEachHead", kMiniMaxM2, "\"per_layer\"", "\"per_head\"",
                "qk_norm_type: 'per_head' is not supported; supported: per_layer"},
        Refusal{"MiniMaxWithoutBias", kMiniMaxM2, "\"use_routing_bias\": true",
                "\"use_routing_bias\": false", "use_routing_bias: is false"},
        Refusal{"LinearAttention", kMiniMaxM2, "\"attn_type_list\": [1]", "\"attn_type_list\": [0]",
                "attn_type_list: has a 0"},
        Refusal{"MoreThanAHeadTurns", kMiniMaxM2, "\"rotary_dim\": 64", "\"rotary_dim\": 130",
                "rotary_dim: is 130; want an integer in 2..128"},
        Refusal{"FewerLayerTypesThanLayers", kGptOss, "\"num_hidden_layers\": 24",
                "\"num_hidden_layers\": 25",
                "layer_types: has 24 entries; num_hidden_layers is 25"},
        Refusal{"LayersOfAnotherType", kGptOss, "\"layer_types\": [\"sliding_attention\"",
                "\"layer_types\": [\"linear_attention\"",
                "layer_types: 'linear_attention' is not supported; supported: full_attention, "
                "sliding_attention"},
        Refusal{"SlidingLayersWithoutAWindow", kGptOss, "\"sliding_window\": 128",
                "\"sliding_window\": null",
                "sliding_window: is null, and layer_types has layers of sliding_attention"},
        Refusal{"GptOssInFp8", kGptOss, "\"mxfp4\"", "\"fp8\"",
                "quantized weights (fp8) are not supported for this family; supported: mxfp4"},
        Refusal{"NoLimit", kGptOss, "\"swiglu_limit\": 7.0", "\"swiglu_limit\": 0.0",
                "swiglu_limit: is 0.0; want a number"},
        Refusal{"NoWholeBlocksOfGptOss", kGptOss, "\"intermediate_size\": 2880",
                "\"intermediate_size\": 2900", "intermediate_size: is 2900; experts in mxfp4"},
        Refusal{"AnothersMxfp4", kMiniMaxM2, "\"quant_method\": \"fp8\"",
                "\"quant_method\": \"mxfp4\"", "quantized weights (mxfp4) are not supported"},
        Refusal{"Llama4WithoutItsTextModel", kScout, "\"text_config\"", "\"text\"",
                "text_config: is missing; want an object"},
        Refusal{"Llama4sTextModelThatIsNone", kScout, "\"text_config\": {",
                "\"text_config\": 1, \"text\": {", "text_config: is no object"},
        Refusal{"Llama4WithoutAChunk", kScout, "\"attention_chunk_size\": 8192",
                "\"attention_chunk_size\": null", "text_config.attention_chunk_size: is null"},
        Refusal{"Llama4WithoutHeadDim", kScout, "\"head_dim\": 128", "\"head_dim\": null",
                "text_config.head_dim: is missing"},
        Refusal{"Llama4WithAWindow", kScout, "\"use_cache\": true", "\"sliding_window\": 4096",
                "text_config.sliding_window: is not supported for this family"},
        Refusal{"FewerEntriesThanLayers", kScout, "\"no_rope_layers\": []",
                "\"no_rope_layers\": [1, 0]",
                "text_config.no_rope_layers: has 2 entries; num_hidden_layers is 48"},
        Refusal{"EntriesThatAreNoFlags", kScout, "\"no_rope_layers\": []",
                "\"no_rope_layers\": [3]", "text_config.no_rope_layers: is [3]"},
        Refusal{"FewerOfLlama4sLayerTypes", kScout, "\"use_cache\": true",
                "\"layer_types\": [\"full_attention\"]",
                "text_config.layer_types: has 1 entries; num_hidden_layers is 48"},
        Refusal{"Llama4WithoutExperts", kScout, "\"use_cache\": true", "\"moe_layers\": []",
                "text_config.moe_layers: leaves no layer with experts"},
        Refusal{"NoFloor", kScout, "\"floor_scale\": 8192", "\"floor_scale\": 0",
                "text_config.floor_scale: is 0"},
        Refusal{"TiedOutsideOnly", kScout, "\"model_type\": \"llama4\"",
                "\"model_type\": \"llama4\", \"tie_word_embeddings\": true",
                "text_config.tie_word_embeddings: is not true"},
        Refusal{"Llama4InFp8", kScout, "\"model_type\": \"llama4\"",
                R"("model_type": "llama4", "quantization_config":
                {"quant_method": "compressed-tensors", "format": "float-quantized"})",
                "quantization_config: quantized weights (compressed-tensors) are not supported for "
                "this family; use the unquantized checkpoint"},
        Refusal{"Llama3sRopeWithoutAFactor", kScout, "\"high_freq_factor\": 4.0,", "",
                "text_config.rope_scaling.high_freq_factor: is missing; llama3 needs it"},
        Refusal{"Llama3sFactorsTurnedRound", kScout, "\"low_freq_factor\": 1.0",
                "\"low_freq_factor\": 8.0",
                "text_config.rope_scaling.low_freq_factor: is larger than high_freq_factor"},
        Refusal{"TwoKindsOfRope", kScout, "\"use_cache\": true",
                R"("rope_parameters": {"rope_type": "yarn", "factor": 2.0,
                "original_max_position_embeddings": 4096})",
                "text_config.rope_scaling: has another rope_type than rope_parameters"},
        Refusal{"SlidingLayers", kQwen2Moe, "\"use_cache\": true",
                "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
                "layer_types: 'sliding_attention' is not supported; supported: full_attention"},
        Refusal{"SlidingWindow", kQwen3Moe, "\"use_sliding_window\": false",
                "\"use_sliding_window\": true", "use_sliding_window: is true"},
        Refusal{"DenseLayerThatIsNone", kQwen3Moe, "\"mlp_only_layers\": []",
                "\"mlp_only_layers\": [48]", "mlp_only_layers: is [48]"},
        Refusal{"StepBeyondTheLayers", kQwen3Moe, "\"decoder_sparse_step\": 1",
                "\"decoder_sparse_step\": 49",
                "decoder_sparse_step: leaves no layer with experts"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace janus
