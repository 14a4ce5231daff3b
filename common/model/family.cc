#include "common/model/family.h"

#include <array>
#include <cmath>

#include "common/model/mixtral.h"

namespace janus {

std::span<const ModelFamily> ModelFamilies() {
  static constexpr std::array<ModelFamily, 1> kFamilies = {{
      {"mixtral", "MixtralForCausalLM", &ReadMixtralConfig},
  }};
  return kFamilies;
}

DType ReadDtype(ConfigReader& config) {
  // transformers 4 writes torch_dtype, 5 writes dtype.
  const std::string_view field = config.Has("dtype") ? "dtype" : "torch_dtype";
  const std::string name = config.StringOr(field, "float32");
  if (name == "float32") return DType::kFloat32;
  if (name == "bfloat16") return DType::kBFloat16;
  if (name == "float16") return DType::kFloat16;
  config.Fail(field, "'" + name + "' is not supported; supported: bfloat16, float16, float32");
  return DType::kFloat32;
}

namespace {

// rope_theta beside the sizes (as published) or inside rope_parameters (transformers 5); a
// rope_scaling or rope_type other than the plain one is refused by name.
RopeDescription ReadPlainRope(ConfigReader& config, int head_dim, double default_theta) {
  for (const std::string_view group : {"rope_parameters", "rope_scaling"}) {
    if (!config.Has(group)) continue;
    for (const std::string_view key : {"rope_type", "type"}) {
      const std::string field = std::string(group) + "." + std::string(key);
      const std::string type = config.StringOr(field, "default");
      if (type != "default") {
        config.Fail(field, "'" + type + "' is not supported; supported: default");
      }
    }
    // A group without a type of its own that scales nevertheless: an older spelling.
    const std::string factor = std::string(group) + ".factor";
    if (config.NumberOr(factor, 1.0, 0.0, 1e9) != 1.0) {
      config.Fail(factor, "scaled rope is not supported; supported: the default rope");
    }
  }
  const double partial = config.NumberOr(config.Has("rope_parameters.partial_rotary_factor")
                                             ? "rope_parameters.partial_rotary_factor"
                                             : "partial_rotary_factor",
                                         1.0, 0.0, 1.0);
  if (partial != 1.0) {
    config.Fail("partial_rotary_factor", "is not 1; rope over a part of the head is not supported");
  }
  RopeDescription rope;
  const double outer = config.NumberOr("rope_theta", default_theta, 1.0, 1e12);
  rope.theta = config.NumberOr("rope_parameters.rope_theta", outer, 1.0, 1e12);
  rope.rotary_dim = head_dim;
  return rope;
}

}  // namespace

AttentionDescription ReadGroupedQueryAttention(ConfigReader& config, int hidden,
                                               int64_t default_kv_heads, double default_theta) {
  AttentionDescription attention;
  attention.heads = static_cast<int>(config.Integer("num_attention_heads", 1, kMaxHeads));
  attention.kv_heads =
      static_cast<int>(config.IntegerOr("num_key_value_heads", default_kv_heads, 1, kMaxHeads));
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
  attention.rope = ReadPlainRope(config, attention.head_dim, default_theta);
  return attention;
}

void RefuseUnsupported(ConfigReader& config) {
  if (config.Has("quantization_config")) {
    std::string method = config.StringOr("quantization_config.quant_method", "unknown");
    config.Fail("quantization_config", "quantized weights (" + method +
                                           ") are not supported; use the unquantized checkpoint");
  }
  const std::string activation = config.StringOr("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    config.Fail("hidden_act", "'" + activation + "' is not supported; supported: silu");
  }
  for (const std::string_view bias : {"attention_bias", "mlp_bias"}) {
    if (config.BoolOr(bias, false)) config.Fail(bias, "is true; biases are not supported");
  }
}

}  // namespace janus
