#include "common/model/config.h"

#include "common/model/generation_defaults.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include "tests/support/random.h"
#include "tests/support/temp_folder.h"

namespace janus {
namespace {

// Mixtral-8x7B-v0.1's config.json with small sizes: the fields as published on the hub.
constexpr std::string_view kPublished = R"({
  "architectures": ["MixtralForCausalLM"],
  "attention_dropout": 0.0,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "hidden_act": "silu",
  "hidden_size": 64,
  "initializer_range": 0.02,
  "intermediate_size": 96,
  "max_position_embeddings": 512,
  "model_type": "mixtral",
  "num_attention_heads": 8,
  "num_experts_per_tok": 2,
  "num_hidden_layers": 4,
  "num_key_value_heads": 2,
  "num_local_experts": 16,
  "output_router_logits": false,
  "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.02,
  "sliding_window": null,
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.36.0.dev0",
  "use_cache": true,
  "vocab_size": 512
})";

// The text with `from` replaced by `to`; the test fails if `from` is not there.
std::string With(std::string_view from, std::string_view to, std::string_view text = kPublished) {
  std::string out(text);
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) out.replace(at, from.size(), to);
  return out;
}

TEST(ModelConfig, ReadsMixtralAsPublished) {
  const Result<ModelDescription> model = ParseModelConfig(kPublished);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->family, "mixtral");
  EXPECT_EQ(model->architecture, "MixtralForCausalLM");
  EXPECT_EQ(model->dtype, DType::kBFloat16);
  EXPECT_EQ(model->vocab, 512);
  EXPECT_EQ(model->hidden, 64);
  EXPECT_EQ(model->layers, 4);
  EXPECT_EQ(model->max_positions, 512);
  EXPECT_FLOAT_EQ(model->norm_epsilon, 1e-6f);
  EXPECT_FALSE(model->tied_embeddings);
  EXPECT_EQ(model->attention.heads, 8);
  EXPECT_EQ(model->attention.kv_heads, 2);
  EXPECT_EQ(model->attention.head_dim, 8);
  EXPECT_FLOAT_EQ(model->attention.scale, 1.0f / std::sqrt(8.0f));
  EXPECT_EQ(model->attention.sliding_window, 0);
  EXPECT_EQ(model->attention.rope.theta, 1e6);
  EXPECT_EQ(model->attention.rope.rotary_dim, 8);
  EXPECT_EQ(model->moe.experts, 16);
  EXPECT_EQ(model->moe.top_k, 2);
  EXPECT_EQ(model->moe.intermediate, 96);
  EXPECT_TRUE(model->moe.renormalize);
}

TEST(ModelConfig, ReadsWhatTransformers5Writes) {
  std::string text = With("\"rope_theta\": 1000000.0",
                          R"("rope_parameters": {"rope_type": "default", "rope_theta": 250000.0},
                             "head_dim": 16)");
  text = With("torch_dtype", "dtype", text);
  text = With("\"bfloat16\"", "\"float32\"", text);
  text = With("\"sliding_window\": null", "\"sliding_window\": 128", text);
  text = With("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", text);
  const Result<ModelDescription> model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->attention.rope.theta, 250000.0);
  EXPECT_EQ(model->attention.head_dim, 16);
  EXPECT_EQ(model->attention.rope.rotary_dim, 16);
  EXPECT_FLOAT_EQ(model->attention.scale, 0.25f);
  EXPECT_EQ(model->dtype, DType::kFloat32);
  EXPECT_EQ(model->attention.sliding_window, 128);
  EXPECT_TRUE(model->tied_embeddings);
}

TEST(ModelConfig, FindsTheFamilyByModelTypeWithoutArchitectures) {
  const auto model = ParseModelConfig(
      With("\"architectures\": [\"MixtralForCausalLM\"]", "\"architectures\": null"));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->family, "mixtral");
}

TEST(ModelConfig, TakesTransformersDefaultsForAbsentFields) {
  std::string text = With("\"num_local_experts\": 16,", "");
  text = With("\"num_experts_per_tok\": 2,", "", text);
  text = With("\"num_key_value_heads\": 2,", "", text);
  text = With("\"rope_theta\": 1000000.0,", "", text);
  text = With("\"rms_norm_eps\": 1e-06,", "", text);
  text = With("\"torch_dtype\": \"bfloat16\",", "", text);
  const auto model = ParseModelConfig(text);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->moe.experts, 8);
  EXPECT_EQ(model->moe.top_k, 2);
  EXPECT_EQ(model->attention.kv_heads, 8);
  EXPECT_EQ(model->attention.rope.theta, 1e6);
  EXPECT_FLOAT_EQ(model->norm_epsilon, 1e-5f);
  EXPECT_EQ(model->dtype, DType::kFloat32);
}

struct Refusal {
  const char* name;
  const char* from;
  std::string to;
  const char* message;  // a part that names field, value and the expected one
};
void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

// A quantization_config of mxfp4 with one more field.
std::string InMxfp4(const std::string& field) {
  return R"("quantization_config": {"quant_method": "compressed-tensors",
             "format": "mxfp4-pack-quantized", )" +
         field + "}";
}
std::string InQuark(const std::string& weight, const std::string& field = R"("exclude": [])") {
  return R"("quantization_config": {"quant_method": "quark", "global_quant_config": {"weight": {)" +
         weight + "}}, " + field + "}";
}

TEST(ModelConfig, ReadsMxfp4OfEitherPublisher) {
  const auto read = [](const std::string& quantization) {
    const auto model = ParseModelConfig(With("\"use_cache\": true", quantization));
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return model.ok() ? *model : ModelDescription();
  };
  const ModelDescription packed = read(InMxfp4(R"("ignore": ["lm_head"])"));
  EXPECT_EQ(packed.mxfp4, Mxfp4Layout::kCompressedTensors);
  EXPECT_EQ(ExpertType(packed), DType::kMxfp4);
  EXPECT_FALSE(packed.has_fp8_weights);
  EXPECT_EQ(packed.dtype, DType::kBFloat16);
  // Some publishers give the format only in the group.
  EXPECT_EQ(read(R"("quantization_config": {"quant_method": "compressed-tensors", "config_groups":
                    {"group_0": {"format": "mxfp4-pack-quantized", "weights": {"num_bits": 4}}}})")
                .mxfp4,
            Mxfp4Layout::kCompressedTensors);
  EXPECT_EQ(read(InQuark(R"("dtype": "fp4", "group_size": 32)")).mxfp4, Mxfp4Layout::kQuark);
  EXPECT_EQ(ParseModelConfig(kPublished)->mxfp4, Mxfp4Layout::kNone);
}

class ModelConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ModelConfigRefuses, NamingTheField) {
  const auto model = ParseModelConfig(With(GetParam().from, GetParam().to));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(model.status().message().find(GetParam().message), std::string::npos)
      << model.status().ToString();
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelConfigRefuses,
    testing::Values(
        Refusal{"UnknownArchitecture", "MixtralForCausalLM", "GrokForCausalLM",
                "architectures: 'GrokForCausalLM' is not supported; supported: "
                "DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, Glm4MoeForCausalLM, "
                "GptOssForCausalLM, Llama4ForConditionalGeneration, Llama4ForCausalLM, "
                "MiniMaxM2ForCausalLM, MixtralForCausalLM, OlmoeForCausalLM, Qwen2MoeForCausalLM, "
                "Qwen3MoeForCausalLM"},
        Refusal{"ArchitecturesThatAreNoList", "[\"MixtralForCausalLM\"]", "\"MixtralForCausalLM\"",
                "architectures: is \"MixtralForCausalLM\"; want a list of strings"},
        Refusal{"Quantization", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "gptq"})",
                "quantization_config: quantized weights (gptq) are not supported"},
        Refusal{"Fp8OfAnotherFormat", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "fp8", "fmt": "e5m2",
                    "weight_block_size": [128, 128]})",
                "quantization_config.fmt: 'e5m2' is not supported; supported: e4m3"},
        Refusal{"Fp8OfWholeTensors", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "fp8"})",
                "quantization_config.weight_block_size: is missing; scales of whole tensors"},
        Refusal{"Fp8OfOtherBlocks", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 128]})",
                "quantization_config.weight_block_size: is [64,128]; supported: [128, 128]"},
        Refusal{"CompressedTensorsOfAnotherFormat", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "compressed-tensors",
                    "format": "nvfp4-pack-quantized"})",
                "quantization_config.format: 'nvfp4-pack-quantized' is not supported; of "
                "compressed-tensors mxfp4-pack-quantized is"},
        Refusal{"CompressedTensorsWithoutAFormat", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "compressed-tensors"})",
                "quantization_config.format: 'unknown' is not supported"},
        Refusal{"CompressedTensorsOfTwoFormats", "\"use_cache\": true",
                InMxfp4(R"("config_groups": {"group_0": {"format": "float-quantized"}})"),
                "quantization_config.config_groups.group_0.format: 'float-quantized' is not"},
        Refusal{"CompressedTensorsOfTwoGroups", "\"use_cache\": true",
                InMxfp4(R"("config_groups": {"group_1": {"targets": ["Linear"]}})"),
                "config_groups.group_1: is not empty; one group of weights is supported"},
        Refusal{"CompressedTensorsOfOtherBits", "\"use_cache\": true",
                InMxfp4(R"("config_groups": {"group_0": {"weights": {"num_bits": 8}}})"),
                "group_0.weights.num_bits: is not supported; supported: 4"},
        Refusal{"CompressedTensorsOfIntegers", "\"use_cache\": true",
                InMxfp4(R"("config_groups": {"group_0": {"weights": {"type": "int"}}})"),
                "group_0.weights.type: 'int' is not supported; supported: float"},
        Refusal{"CompressedTensorsOfOtherBlocks", "\"use_cache\": true",
                InMxfp4(R"("config_groups": {"group_0": {"weights": {"group_size": 16}}})"),
                "group_0.weights.group_size: is not supported; supported: 32"},
        Refusal{"CompressedTensorsWithAQuantizedCache", "\"use_cache\": true",
                InMxfp4(R"("kv_cache_scheme": {"num_bits": 8})"),
                "kv_cache_scheme: is not empty; quantized caches are not supported"},
        Refusal{"CompressedTensorsWithTransforms", "\"use_cache\": true",
                InMxfp4(R"("transform_config": {"config_groups": {}})"),
                "transform_config: is not empty; transforms are not supported"},
        Refusal{"CompressedTensorsThatAreSparse", "\"use_cache\": true",
                InMxfp4(R"("sparsity_config": {"format": "sparse-24-bitmask"})"),
                "sparsity_config.format: 'sparse-24-bitmask' is not supported; supported: dense"},
        Refusal{"QuarkOfAnotherType", "\"use_cache\": true", InQuark(R"("dtype": "fp8_e4m3")"),
                "global_quant_config.weight.dtype: 'fp8_e4m3' is not supported; of quark fp4 is"},
        Refusal{"QuarkWithoutAType", "\"use_cache\": true",
                R"("quantization_config": {"quant_method": "quark"})",
                "global_quant_config.weight.dtype: 'unknown' is not supported"},
        Refusal{"QuarkOfWholeTensors", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4", "qscheme": "per_tensor")"),
                "weight.qscheme: 'per_tensor' is not supported; supported: per_group"},
        Refusal{"QuarkOfOtherBlocks", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4", "group_size": 16)"),
                "weight.group_size: is not supported; supported: 32"},
        Refusal{"QuarkOfOtherScales", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4", "scale_format": "e4m3")"),
                "weight.scale_format: 'e4m3' is not supported; supported: e8m0"},
        Refusal{"QuarkThatOnlyPretends", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4")", R"("export": {"weight_format": "fake_quantized"})"),
                "export.weight_format: 'fake_quantized' is not supported"},
        Refusal{"QuarkOfTwoFormats", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4")", R"("layer_quant_config": {"*": {}})"),
                "layer_quant_config: is not empty; one format of weights is supported"},
        Refusal{"QuarkOfTwoFormatsByType", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4")", R"("layer_type_quant_config": {"Linear": {}})"),
                "layer_type_quant_config: is not empty; one format of weights is supported"},
        Refusal{"QuarkWithAQuantizedCache", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4")", R"("kv_cache_quant_config": {"*k_proj": {}})"),
                "kv_cache_quant_config: is not empty; quantized caches are not supported"},
        Refusal{"QuarkThatTurnsActivations", "\"use_cache\": true",
                InQuark(R"("dtype": "fp4")", R"("algo_config": [{"name": "rotation"}])"),
                "algo_config: is not empty; some algorithms (rotations) turn activations"},
        Refusal{"Mxfp4OfRowsThatAreNoWholeBlocks", "\"hidden_size\": 64",
                InMxfp4(R"("ignore": [])") + R"(, "hidden_size": 80)",
                "hidden_size: is 80; experts in mxfp4 ask for multiples of 32"},
        Refusal{"Mxfp4OfExpertsThatAreNoWholeBlocks", "\"intermediate_size\": 96",
                InMxfp4(R"("ignore": [])") + R"(, "intermediate_size": 100)",
                "intermediate_size: is 100; experts in mxfp4 ask for multiples of 32"},
        Refusal{"ScaledRopePublished", "\"use_cache\": true",
                R"("rope_scaling": {"type": "dynamic", "factor": 4.0})",
                "rope_scaling.type: 'dynamic' is not supported; supported: default, llama3, yarn"},
        Refusal{"ScaledRopeTransformers5", "\"use_cache\": true",
                R"("rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4})",
                "rope_parameters.rope_type: 'longrope' is not supported"},
        Refusal{"PartialRope", "\"use_cache\": true", "\"partial_rotary_factor\": 0.5",
                "partial_rotary_factor: is 0.5, not 1; this family's rope turns whole heads"},
        Refusal{"AnotherActivation", "\"silu\"", "\"gelu\"", "hidden_act: 'gelu' is not supported"},
        Refusal{"AnotherDtype", "\"bfloat16\"", "\"float8_e4m3fn\"",
                "torch_dtype: 'float8_e4m3fn' is not supported"},
        Refusal{"Biases", "\"use_cache\": true", "\"attention_bias\": true",
                "attention_bias: is true"},
        Refusal{"NegativeHidden", "\"hidden_size\": 64", "\"hidden_size\": -64",
                "hidden_size: is -64; want an integer in 1..65536"},
        Refusal{"ZeroLayers", "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 0",
                "num_hidden_layers: is 0;"},
        Refusal{"AbsurdVocabulary", "\"vocab_size\": 512", "\"vocab_size\": 99999999999999999999",
                "vocab_size: is "},
        Refusal{"OverflowingIntermediate", "\"intermediate_size\": 96",
                "\"intermediate_size\": 9223372036854775807",
                "intermediate_size: is 9223372036854775807; want an integer in 1..262144"},
        Refusal{"UnsignedBeyond63Bits", "\"intermediate_size\": 96",
                "\"intermediate_size\": 18446744073709551615", "intermediate_size: is "},
        Refusal{"FractionalHeads", "\"num_attention_heads\": 8", "\"num_attention_heads\": 8.5",
                "num_attention_heads: is 8.5; want an integer"},
        Refusal{"TextForANumber", "\"hidden_size\": 64", "\"hidden_size\": \"64\"",
                "hidden_size: is \"64\"; want an integer"},
        Refusal{"MissingSize", "\"intermediate_size\": 96,", "",
                "intermediate_size: is missing; want an integer"},
        Refusal{"HeadsThatDoNotDivide", "\"num_attention_heads\": 8", "\"num_attention_heads\": 6",
                "num_attention_heads: is 6, which does not divide hidden_size = 64"},
        Refusal{"KvHeadsThatDoNotDivide", "\"num_key_value_heads\": 2",
                "\"num_key_value_heads\": 3",
                "num_key_value_heads: is 3, which does not divide num_attention_heads = 8"},
        Refusal{"MoreTopKThanExperts", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 17",
                "num_experts_per_tok: is 17, more than num_local_experts = 16"},
        Refusal{"MoreTopKThanKernelsTake", "\"num_experts_per_tok\": 2",
                "\"num_experts_per_tok\": 33",
                "num_experts_per_tok: is 33; want an integer in 1..32"},
        Refusal{"HeadWiderThanKernelsTake", "\"use_cache\": true", "\"head_dim\": 258",
                "head_dim: is 258; want an integer in 2..256"},
        Refusal{"OddHead", "\"use_cache\": true", "\"head_dim\": 9",
                "head_dim: is 9; rope turns pairs"},
        Refusal{"EpsilonOfOneMillion", "1e-06", "1e6", "rms_norm_eps: is 1000000.0"},
        Refusal{"NegativeTheta", "1000000.0", "-1.0", "rope_theta: is -1.0"},
        Refusal{"NegativeWindow", "\"sliding_window\": null", "\"sliding_window\": -1",
                "sliding_window: is -1"},
        Refusal{"TruncatedFile", "\"vocab_size\": 512\n}", "\"vocab_size\": 5",
                "not valid JSON at byte"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ModelConfig, NamesAnUnknownModelTypeWithoutArchitectures) {
  const std::string text = With("[\"MixtralForCausalLM\"]", "null");
  EXPECT_EQ(ParseModelConfig(With("\"mixtral\"", "\"grok\"", text)).status().message(),
            "model_type: 'grok' is not supported; supported: DeepseekV2ForCausalLM, "
            "DeepseekV3ForCausalLM, Glm4MoeForCausalLM, GptOssForCausalLM, "
            "Llama4ForConditionalGeneration, Llama4ForCausalLM, MiniMaxM2ForCausalLM, "
            "MixtralForCausalLM, OlmoeForCausalLM, Qwen2MoeForCausalLM, Qwen3MoeForCausalLM");
}

TEST(ModelConfig, SaysWhatIsMissingForKnownModels) {
  for (const auto& [architecture, type, what] : {
           std::tuple{"DbrxForCausalLM", "dbrx", "fused projection"},
           {"DeepseekV32ForCausalLM", "deepseek_v32", "(DSA)"},
           {"GlmMoeDsaForCausalLM", "glm_moe_dsa", "(DSA)"},
           {"Grok1ForCausalLM", "grok-1", "soft-capped attention"},
           {"PhimoeForCausalLM", "phimoe", "SparseMixer"},
           {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "delta rule"},
           {"Qwen3NextForCausalLM", "qwen3_next", "delta rule"},
       }) {
    const std::string named = With("MixtralForCausalLM", architecture);
    const std::string typed = With("\"mixtral\"", "\"" + std::string(type) + "\"",
                                   With("[\"MixtralForCausalLM\"]", "null"));
    for (const std::string& text : {named, typed}) {
      const Status status = ParseModelConfig(text).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(status.message().find(what), std::string::npos) << status.ToString();
      EXPECT_NE(status.message().find(" not supported; supported: Deep"), std::string::npos)
          << status.ToString();
    }
  }
}

TEST(ModelConfig, RefusesWhatIsNoObject) {
  EXPECT_EQ(ParseModelConfig("[1]").status().message(), "not a JSON object");
  EXPECT_NE(ParseModelConfig("").status().message().find("not valid JSON"), std::string::npos);
  EXPECT_NE(ParseModelConfig("{}").status().message().find("architectures: is missing"),
            std::string::npos);
}

// Any damaged file gives a description within the bounds, or an error.
TEST(ModelConfig, JudgesAnyText) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  constexpr std::string_view kPieces = "{}[]:,\"0123456789eE.-+nt ";
  int accepted = 0;
  for (int run = 0; run < 20'000; ++run) {
    std::string text(kPublished);
    for (size_t change = 1 + draw(3); change > 0; --change) {
      text[draw(text.size())] = kPieces[draw(kPieces.size())];
    }
    const Result<ModelDescription> model = ParseModelConfig(text);
    if (!model.ok()) {
      EXPECT_FALSE(model.status().message().empty());
      continue;
    }
    ++accepted;
    ASSERT_GE(model->hidden, 1);
    ASSERT_GE(model->attention.kv_heads, 1);
    ASSERT_EQ(model->attention.heads % model->attention.kv_heads, 0);
    ASSERT_LE(model->moe.top_k, model->moe.experts);
    ASSERT_EQ(model->attention.head_dim % 2, 0);
  }
  EXPECT_GT(accepted, 0);
}

TEST(GenerationConfig, ReadsListsAndDefaults) {
  const auto one = ParseGenerationConfig(R"({"eos_token_id": 2, "bos_token_id": 1})", 512);
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ(one->eos_tokens, std::vector<int>{2});
  EXPECT_EQ(one->bos_token, 1);
  EXPECT_FALSE(one->temperature.has_value());
  const auto many = ParseGenerationConfig(
      R"({"eos_token_id": [2, 7], "do_sample": true, "temperature": 0.6, "top_k": 40, "top_p": 0.9})",
      512);
  ASSERT_TRUE(many.ok()) << many.status().ToString();
  EXPECT_EQ(many->eos_tokens, (std::vector<int>{2, 7}));
  EXPECT_EQ(many->do_sample, true);
  EXPECT_EQ(many->temperature, 0.6);
  EXPECT_EQ(many->top_k, 40);
  EXPECT_EQ(many->top_p, 0.9);
}

TEST(GenerationConfig, LeavesOutWhatMeansNothing) {
  const auto parsed = [](std::string_view text) {
    return ParseGenerationConfig(text, 512).value();
  };
  EXPECT_EQ(parsed(R"({"eos_token_id": 512})").left_out,
            std::vector<std::string>{"eos_token_id is 512: the ids of tokens are 0 to 511"});
  EXPECT_EQ(parsed(R"({"eos_token_id": [2, -1, 600]})").eos_tokens, std::vector<int>{2});
  EXPECT_FALSE(parsed(R"({"temperature": -1})").temperature);
  EXPECT_FALSE(parsed(R"({"top_p": 1.5})").top_p);
  EXPECT_FALSE(parsed(R"({"top_p": "high"})").top_p);
  EXPECT_EQ(parsed(R"({"top_p": 1.5, "top_k": 2.5})").left_out.size(), 2u);
  // Unusual but valid values.
  const GenerationDefaults odd =
      parsed(R"({"top_k": -1, "eos_token_id": 2.0, "bos_token_id": [1]})");
  EXPECT_EQ(odd.top_k, 0);
  EXPECT_EQ(odd.eos_tokens, std::vector<int>{2});
  EXPECT_EQ(odd.bos_token, 1);
  EXPECT_EQ(parsed(R"({"top_k": 50.0})").top_k, 50);
  EXPECT_TRUE(odd.left_out.empty());
  EXPECT_EQ(ParseGenerationConfig("{", 512).status().code(), StatusCode::kInvalidArgument);
}

class ModelFolder : public testing::Test {
 protected:
  void Write(const std::string& name, std::string_view text) {
    folder_.Write(name, std::string(text));
  }
  const TempFolder folder_;
};

TEST_F(ModelFolder, NamesTheFileThatIsMissingOrWrong) {
  EXPECT_EQ(LoadModelConfig(folder_.path() + "/none").status().code(), StatusCode::kNotFound);
  EXPECT_NE(LoadModelConfig(folder_.path())
                .status()
                .message()
                .find(folder_.path() + "/config.json: no such file"),
            std::string::npos);
  Write("config.json", "{\"architectures\": ");
  EXPECT_NE(LoadModelConfig(folder_.path())
                .status()
                .message()
                .find(folder_.path() + "/config.json: not valid JSON"),
            std::string::npos);
  Write("config.json", "");
  EXPECT_NE(LoadModelConfig(folder_.path()).status().message().find("not valid JSON"),
            std::string::npos);
  Write("config.json", kPublished);
  EXPECT_TRUE(LoadModelConfig(folder_.path()).ok());
}

TEST_F(ModelFolder, AWrongPathComesWithTheNamesBesideIt) {
  const auto refused = [](const std::string& path) {
    return LoadModelConfig(path).status().message();
  };
  const std::string want = "; want a Hugging Face checkpoint's folder; ";
  const std::string models = folder_.path() + "/models";
  std::filesystem::create_directories(models);
  EXPECT_EQ(refused(models + "/demoo"),
            models + "/demoo: no such folder" + want + models + " is empty");
  for (const char* name : {"alpha", "demo", "demo2", ".hidden"}) {
    std::filesystem::create_directory(models + "/" + name);
  }
  EXPECT_EQ(refused(models + "/demoo"),
            models + "/demoo: no such folder" + want + models + " has: demo, demo2, alpha");
  EXPECT_EQ(refused(models + "/demoo/"),
            models + "/demoo/: no such folder" + want + models + " has: demo, demo2, alpha");
  EXPECT_EQ(refused(models + "/al/pha/x"),
            models + "/al/pha/x: no such folder" + want + models + " has: alpha, demo, demo2");
  EXPECT_EQ(refused(models),
            models + "/config.json: no such file" + want + models + " has: alpha, demo, demo2");
  for (int i = 0; i < 7; ++i) folder_.Write("models/file" + std::to_string(i), "");
  EXPECT_EQ(refused(models + "/demoo"),
            models + "/demoo: no such folder" + want + models +
                " has: demo, demo2, alpha, file0, file1, file2, file3, file4 and 2 more");
}

TEST_F(ModelFolder, JoinsTheEndsOfBothFiles) {
  Write("config.json", kPublished);
  auto defaults = LoadGenerationDefaults(folder_.path(), 512);
  ASSERT_TRUE(defaults.ok()) << defaults.status().ToString();
  EXPECT_EQ(defaults->eos_tokens, std::vector<int>{2});
  EXPECT_EQ(defaults->bos_token, 1);
  Write("generation_config.json", R"({"eos_token_id": [5, 6]})");
  defaults = LoadGenerationDefaults(folder_.path(), 512);
  ASSERT_TRUE(defaults.ok()) << defaults.status().ToString();
  EXPECT_EQ(defaults->eos_tokens, (std::vector<int>{2, 5, 6}));
  EXPECT_EQ(defaults->bos_token, 1);
}

TEST_F(ModelFolder, TheTokensOfATextModelCountToo) {
  Write("config.json",
        R"({"eos_token_id": 7, "text_config": {"bos_token_id": 4, "eos_token_id": [8, 9]}})");
  const auto defaults = LoadGenerationDefaults(folder_.path(), 512);
  ASSERT_TRUE(defaults.ok()) << defaults.status().ToString();
  EXPECT_EQ(defaults->eos_tokens, (std::vector<int>{7, 8, 9}));
  EXPECT_EQ(defaults->bos_token, 4);
}

}  // namespace
}  // namespace janus
