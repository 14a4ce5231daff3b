#include "common/model/family.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/model/deepseek_v2.h"
#include "common/model/deepseek_v3.h"
#include "common/model/glm4_moe.h"
#include "common/model/gpt_oss.h"
#include "common/model/llama4.h"
#include "common/model/minimax_m2.h"
#include "common/model/mixtral.h"
#include "common/model/olmoe.h"
#include "common/model/qwen2_moe.h"
#include "common/model/qwen3_moe.h"

namespace janus {

std::span<const ModelFamily> ModelFamilies() {
  static constexpr std::array<ModelFamily, 11> kFamilies = {{
      {"deepseek_v2", "DeepseekV2ForCausalLM", &ReadDeepseekV2Config},
      {"deepseek_v3", "DeepseekV3ForCausalLM", &ReadDeepseekV3Config},
      {"glm4_moe", "Glm4MoeForCausalLM", &ReadGlm4MoeConfig},
      {"gpt_oss", "GptOssForCausalLM", &ReadGptOssConfig},
      {"llama4", "Llama4ForConditionalGeneration", &ReadLlama4Config},
      {"llama4_text", "Llama4ForCausalLM", &ReadLlama4TextConfig},
      {"minimax_m2", "MiniMaxM2ForCausalLM", &ReadMiniMaxM2Config},
      {"mixtral", "MixtralForCausalLM", &ReadMixtralConfig},
      {"olmoe", "OlmoeForCausalLM", &ReadOlmoeConfig},
      {"qwen2_moe", "Qwen2MoeForCausalLM", &ReadQwen2MoeConfig},
      {"qwen3_moe", "Qwen3MoeForCausalLM", &ReadQwen3MoeConfig},
  }};
  return kFamilies;
}

namespace {

DType ReadDtype(ConfigReader& config) {
  // transformers 4 writes torch_dtype, 5 writes dtype.
  const std::string_view field = config.Either("dtype", "torch_dtype");
  const std::string name = config.StringOr(field, "float32");
  if (name == "float32") return DType::kFloat32;
  if (name == "bfloat16") return DType::kBFloat16;
  if (name == "float16") return DType::kFloat16;
  config.Fail(field, "'" + name + "' is not supported; supported: bfloat16, float16, float32");
  return DType::kFloat32;
}

constexpr std::string_view kQuantization = "quantization_config";

// Fails unless the field is absent or has the supported value.
void ExpectText(ConfigReader& config, const std::string& field, const std::string& supported) {
  const std::string text = config.StringOr(field, supported);
  if (text != supported) {
    config.Fail(field, "'" + text + "' is not supported; supported: " + supported);
  }
}
void ExpectInteger(ConfigReader& config, const std::string& field, int64_t supported) {
  if (config.IntegerOr(field, supported, 0, kMaxIntermediate) != supported) {
    config.Fail(field, "is not supported; supported: " + std::to_string(supported));
  }
}
void ExpectEmpty(ConfigReader& config, const std::string& field, const std::string& why) {
  if (!config.IsEmpty(field)) config.Fail(field, "is not empty; " + why);
}

// fp8 in the form that DeepSeek and Qwen publish.
void ReadFp8(ConfigReader& config) {
  const std::string group(kQuantization);
  // MiniMax writes the same format with its long name.
  const std::string format = config.StringOr(group + ".fmt", "e4m3");
  if (format != "float8_e4m3fn") ExpectText(config, group + ".fmt", "e4m3");
  const std::vector<int64_t> block =
      config.Integers(group + ".weight_block_size", 1, kMaxIntermediate);
  if (block.empty()) {
    config.Fail(group + ".weight_block_size",
                "is missing; scales of whole tensors are not supported, those of [128, 128] are");
  } else if (block != std::vector<int64_t>{128, 128}) {
    config.Fail(group + ".weight_block_size",
                "is " + config.Shown(group + ".weight_block_size") + "; supported: [128, 128]");
  }
}

// mxfp4 in the form of compressed-tensors (llm-compressor). The loader finds the quantized modules
// by their tensors.
void ReadCompressedTensors(ConfigReader& config) {
  const std::string group(kQuantization);
  const std::string first = group + ".config_groups.group_0";
  const std::string format = config.StringOr(
      config.Has(group + ".format") ? group + ".format" : first + ".format", "unknown");
  if (format != "mxfp4-pack-quantized") {
    config.Fail(group + ".format", "'" + format +
                                       "' is not supported; of compressed-tensors "
                                       "mxfp4-pack-quantized is");
  }
  ExpectText(config, first + ".format", "mxfp4-pack-quantized");
  ExpectInteger(config, first + ".weights.num_bits", 4);
  ExpectText(config, first + ".weights.type", "float");
  ExpectInteger(config, first + ".weights.group_size", kMxBlock);
  ExpectEmpty(config, group + ".config_groups.group_1", "one group of weights is supported");
  ExpectEmpty(config, group + ".kv_cache_scheme", "quantized caches are not supported");
  ExpectEmpty(config, group + ".transform_config", "transforms are not supported");
  ExpectText(config, group + ".sparsity_config.format", "dense");
}

// mxfp4 in the form of AMD Quark. The loader finds the quantized modules by their tensors.
void ReadQuark(ConfigReader& config) {
  const std::string group(kQuantization);
  const std::string weight = group + ".global_quant_config.weight";
  const std::string dtype = config.StringOr(weight + ".dtype", "unknown");
  if (dtype != "fp4") {
    config.Fail(weight + ".dtype", "'" + dtype + "' is not supported; of quark fp4 is");
  }
  ExpectText(config, weight + ".qscheme", "per_group");
  ExpectInteger(config, weight + ".group_size", kMxBlock);
  ExpectText(config, weight + ".scale_format", "e8m0");
  ExpectText(config, group + ".export.weight_format", "real_quantized");
  ExpectEmpty(config, group + ".layer_quant_config", "one format of weights is supported");
  ExpectEmpty(config, group + ".layer_type_quant_config", "one format of weights is supported");
  ExpectEmpty(config, group + ".kv_cache_quant_config", "quantized caches are not supported");
  ExpectEmpty(config, group + ".algo_config",
              "some algorithms (rotations) turn activations as the model runs: not supported");
}

void ReadQuantization(ConfigReader& config, QuantizedExperts experts, ModelDescription& model) {
  const std::string group(kQuantization);
  if (!config.Has(group)) return;
  const std::string method = config.StringOr(group + ".quant_method", "unknown");
  if (experts == QuantizedExperts::kNone) {
    config.Fail(group, "quantized weights (" + method +
                           ") are not supported for this family; use the unquantized checkpoint");
  } else if (experts == QuantizedExperts::kTogether) {
    // The loader finds the quantized modules by their tensors.
    model.mxfp4 = Mxfp4Layout::kGptOss;
    if (method == "mxfp4") return;
    config.Fail(group, "quantized weights (" + method +
                           ") are not supported for this family; supported: mxfp4 of routed "
                           "experts; or use the unquantized checkpoint");
  } else if (method == "fp8") {
    model.has_fp8_weights = true;
    ReadFp8(config);
  } else if (method == "compressed-tensors") {
    model.mxfp4 = Mxfp4Layout::kCompressedTensors;
    ReadCompressedTensors(config);
  } else if (method == "quark") {
    model.mxfp4 = Mxfp4Layout::kQuark;
    ReadQuark(config);
  } else {
    config.Fail(group, "quantized weights (" + method +
                           ") are not supported; supported: fp8, and mxfp4 of routed experts by "
                           "compressed-tensors and quark; or use the unquantized checkpoint");
  }
}

void RefuseUnsupported(ConfigReader& config) {
  const std::string activation = config.StringOr("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    config.Fail("hidden_act", "'" + activation + "' is not supported; supported: silu");
  }
  RefuseTrue(config, "mlp_bias", "biases are not supported");
}

// YaRN's 0.1 * mscale * ln(factor) + 1; 1 if nothing is stretched.
double YarnScale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// The fields of `group` ("rope_scaling", "rope_parameters").
void ReadYarn(ConfigReader& config, const std::string& group, RopeDescription& rope) {
  const auto field = [&](std::string_view name) { return group + "." + std::string(name); };
  const auto number = [&](std::string_view name, double fallback, double low, double high) {
    return config.NumberOr(field(name), fallback, low, high);
  };
  for (const std::string_view needed : {"factor", "original_max_position_embeddings"}) {
    if (!config.Has(field(needed))) config.Fail(field(needed), "is missing; yarn needs it");
  }
  YarnDescription& yarn = rope.yarn.emplace();
  yarn.factor = number("factor", 1.0, 1.0, 1e6);
  yarn.original_positions =
      number("original_max_position_embeddings", 1.0, 1.0, static_cast<double>(kMaxPositions));
  yarn.beta_fast = number("beta_fast", 32.0, 1e-3, 1e6);
  yarn.beta_slow = number("beta_slow", 1.0, 1e-3, 1e6);
  if (yarn.beta_slow > yarn.beta_fast) config.Fail(field("beta_slow"), "is larger than beta_fast");
  yarn.truncate = config.BoolOr(field("truncate"), true);
  const double mscale = number("mscale", 0.0, 0.0, 100.0);
  const double all_dim = number("mscale_all_dim", 0.0, 0.0, 100.0);
  double attention_factor = YarnScale(yarn.factor, 1.0);
  if (mscale != 0.0 && all_dim != 0.0) {
    attention_factor = YarnScale(yarn.factor, mscale) / YarnScale(yarn.factor, all_dim);
  }
  rope.attention_factor =
      static_cast<float>(number("attention_factor", attention_factor, 1e-3, 1e3));
}

// The fields of `group`, whose names are Llama 3.1's.
void ReadLlama3(ConfigReader& config, const std::string& group, RopeDescription& rope) {
  const auto number = [&](std::string_view name, double low, double high) {
    const std::string field = group + "." + std::string(name);
    if (!config.Has(field)) config.Fail(field, "is missing; llama3 needs it");
    return config.NumberOr(field, low, low, high);
  };
  Llama3RopeDescription& llama3 = rope.llama3.emplace();
  llama3.factor = number("factor", 1.0, 1e6);
  llama3.original_positions =
      number("original_max_position_embeddings", 1.0, static_cast<double>(kMaxPositions));
  llama3.low_turns = number("low_freq_factor", 1e-3, 1e6);
  llama3.high_turns = number("high_freq_factor", 1e-3, 1e6);
  if (llama3.low_turns > llama3.high_turns) {
    config.Fail(group + ".low_freq_factor", "is larger than high_freq_factor");
  }
}

// The field of the part of a head that turns, in either form.
std::string_view RotaryPartField(const ConfigReader& config) {
  return config.Either("rope_parameters.partial_rotary_factor", "partial_rotary_factor");
}

void RefusePartialRope(ConfigReader& config) {
  const std::string_view field = RotaryPartField(config);
  if (config.NumberOr(field, 1.0, 0.0, 1.0) != 1.0) {
    config.Fail(field,
                "is " + config.Shown(field) + ", not 1; this family's rope turns whole heads");
  }
}

int ReadRotaryDim(ConfigReader& config, int head_dim, double default_part) {
  const std::string_view field = RotaryPartField(config);
  const double part = config.NumberOr(field, default_part, 0.0, 1.0);
  const int rotary = static_cast<int>(head_dim * part);
  if (rotary < 2 || rotary % 2 != 0) {
    config.Fail(field, "gives " + std::to_string(rotary) + " of " + std::to_string(head_dim) +
                           " elements; rope turns pairs, so it must be even and above 0");
  }
  return rotary;
}

}  // namespace

void RefuseTrue(ConfigReader& config, std::string_view field, const std::string& why) {
  if (config.BoolOr(field, false)) config.Fail(field, "is true; " + why);
}

void RefuseAttentionBias(ConfigReader& config) {
  RefuseTrue(config, "attention_bias", "biases are not supported for this family");
}

void RefuseSlidingWindow(ConfigReader& config, AttentionDescription& attention) {
  attention.sliding_window = 0;
  RefuseTrue(config, "use_sliding_window", "that is not supported for this family");
}

ModelDescription ReadSizes(ConfigReader& config, double default_epsilon, QuantizedExperts experts) {
  RefuseUnsupported(config);
  ModelDescription model;
  model.dtype = ReadDtype(config);
  ReadQuantization(config, experts, model);
  model.vocab = static_cast<int>(config.Integer("vocab_size", 1, kMaxVocab));
  model.hidden = static_cast<int>(config.Integer("hidden_size", 1, kMaxHidden));
  model.layers = static_cast<int>(config.Integer("num_hidden_layers", 1, kMaxLayers));
  model.max_positions = config.Integer("max_position_embeddings", 1, kMaxPositions);
  model.norm_epsilon =
      static_cast<float>(config.NumberOr("rms_norm_eps", default_epsilon, 0.0, 1.0));
  model.tied_embeddings = config.BoolOr("tie_word_embeddings", false);
  return model;
}

void SetYarn(const YarnDescription& yarn, RopeDescription& rope) {
  rope.yarn = yarn;
  rope.attention_factor = static_cast<float>(YarnScale(yarn.factor, 1.0));
}

RopeDescription ReadRope(ConfigReader& config, int rotary_dim, double default_theta) {
  RopeDescription rope;
  rope.rotary_dim = rotary_dim;
  const double outer = config.NumberOr("rope_theta", default_theta, 1.0, 1e12);
  rope.theta = config.NumberOr("rope_parameters.rope_theta", outer, 1.0, 1e12);
  for (const std::string group : {"rope_parameters", "rope_scaling"}) {
    if (!config.Has(group)) continue;
    std::string type = "default";
    for (const std::string_view key : {"type", "rope_type"}) {
      const std::string field = group + "." + std::string(key);
      if (!config.Has(field)) continue;
      type = config.StringOr(field, type);
      if (type != "default" && type != "yarn" && type != "llama3") {
        config.Fail(field, "'" + type + "' is not supported; supported: default, llama3, yarn");
      }
    }
    const std::string factor = group + ".factor";
    if (type == "yarn") {
      ReadYarn(config, group, rope);
    } else if (type == "llama3") {
      ReadLlama3(config, group, rope);
    } else if (config.NumberOr(factor, 1.0, 0.0, 1e9) != 1.0) {
      // An older spelling: the group has a factor but no type.
      config.Fail(factor,
                  "scales a rope whose type is not given; supported: default, llama3, yarn");
    }
  }
  if (rope.yarn && rope.llama3) {
    config.Fail("rope_scaling", "has another rope_type than rope_parameters");
  }
  return rope;
}

AttentionDescription ReadGroupedQueryAttention(ConfigReader& config, int hidden,
                                               const GroupedQueryDefaults& defaults) {
  AttentionDescription attention;
  attention.heads = static_cast<int>(config.Integer("num_attention_heads", 1, kMaxHeads));
  attention.kv_heads = static_cast<int>(
      config.IntegerOr("num_key_value_heads",
                       defaults.kv_heads > 0 ? defaults.kv_heads : attention.heads, 1, kMaxHeads));
  if (attention.heads % attention.kv_heads != 0) {
    config.Fail("num_key_value_heads", "is " + std::to_string(attention.kv_heads) +
                                           ", which does not divide num_attention_heads = " +
                                           std::to_string(attention.heads));
  }
  if (config.Has("head_dim")) {
    attention.head_dim = static_cast<int>(config.Integer("head_dim", 2, kMaxHeadDim));
  } else {
    if (hidden % attention.heads != 0) {
      config.Fail("num_attention_heads", "is " + std::to_string(attention.heads) +
                                             ", which does not divide hidden_size = " +
                                             std::to_string(hidden) + ", and there is no head_dim");
    }
    attention.head_dim = hidden / attention.heads;
    if (attention.head_dim < 2 || attention.head_dim > kMaxHeadDim) {
      config.Fail("hidden_size", "gives heads of " + std::to_string(attention.head_dim) +
                                     "; want 2.." + std::to_string(kMaxHeadDim));
    }
  }
  if (attention.head_dim % 2 != 0) {
    config.Fail("head_dim", "is " + std::to_string(attention.head_dim) +
                                "; rope turns pairs, so it must be even");
  }
  attention.scale = static_cast<float>(1.0 / std::sqrt(std::max(attention.head_dim, 1)));
  attention.sliding_window =
      static_cast<int>(config.IntegerOr("sliding_window", 0, 1, kMaxPositions));
  int rotary = attention.head_dim;
  if (defaults.rotary_part > 0.0) {
    rotary = ReadRotaryDim(config, attention.head_dim, defaults.rotary_part);
  } else {
    RefusePartialRope(config);
  }
  attention.rope = ReadRope(config, rotary, defaults.theta);
  return attention;
}

void ReadExperts(ConfigReader& config, std::string_view experts, int64_t default_experts,
                 std::string_view top_k, int64_t default_top_k, MoeDescription& moe) {
  moe.experts = static_cast<int>(config.IntegerOr(experts, default_experts, 1, kMaxExperts));
  moe.top_k = static_cast<int>(config.IntegerOr(top_k, default_top_k, 1, kMaxTopK));
  if (moe.top_k > moe.experts) {
    config.Fail(top_k, "is " + std::to_string(moe.top_k) + ", more than " + std::string(experts) +
                           " = " + std::to_string(moe.experts));
  }
}

void ReadSparseSteps(ConfigReader& config, ModelDescription& model) {
  const int64_t step = config.IntegerOr("decoder_sparse_step", 1, 1, kMaxLayers);
  const auto dense = config.Integers("mlp_only_layers", 0, model.layers - 1);
  ReadDenseLayers(
      config, dense.empty() ? "decoder_sparse_step" : "mlp_only_layers",
      [&](int layer) {
        return (layer + 1) % step == 0 &&
               std::find(dense.begin(), dense.end(), layer) == dense.end();
      },
      model);
}

void ReadDenseLayers(ConfigReader& config, std::string_view fields,
                     const std::function<bool(int layer)>& is_moe, ModelDescription& model,
                     std::string_view width) {
  for (int layer = 0; layer < model.layers; ++layer) {
    if (!is_moe(layer)) model.dense_layers.push_back(layer);
  }
  if (model.moe_layers() == 0) {
    config.Fail(fields, "leaves no layer with experts; that is not a Mixture-of-Experts model");
  }
  if (model.dense_layers.empty()) return;
  model.dense_intermediate = static_cast<int>(config.Integer(width, 1, kMaxIntermediate));
}

}  // namespace janus
