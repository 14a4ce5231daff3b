#include "common/model/gpt_oss.h"

#include "common/model/family.h"

namespace janus {
namespace {

// Every other layer is full, from the second on, unless the file lists them.
void ReadLayerTypes(ConfigReader& config, const ModelDescription& model,
                    AttentionDescription& attention) {
  const std::vector<std::string> types = config.Strings("layer_types");
  if (config.Has("layer_types") && std::ssize(types) != model.layers) {
    config.Fail("layer_types", "has " + std::to_string(types.size()) +
                                   " entries; num_hidden_layers is " +
                                   std::to_string(model.layers));
    return;
  }
  for (int layer = 0; layer < model.layers; ++layer) {
    if (types.empty()) {
      if (layer % 2 == 1) attention.full_layers.push_back(layer);
      continue;
    }
    const std::string& type = types[static_cast<size_t>(layer)];
    if (type == "full_attention") {
      attention.full_layers.push_back(layer);
    } else if (type != "sliding_attention") {
      config.Fail("layer_types", "'" + type +
                                     "' is not supported; supported: full_attention, "
                                     "sliding_attention");
    }
  }
}

}  // namespace

ModelDescription ReadGptOssConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-5, QuantizedExperts::kTogether);
  if (!config.Has("dtype") && !config.Has("torch_dtype")) model.dtype = DType::kBFloat16;
  AttentionDescription& a = model.attention;
  a = ReadGroupedQueryAttention(config, model.hidden, {.kv_heads = 8, .theta = 150000.0});
  if (!config.Has("rope_parameters") && !config.Has("rope_scaling")) {
    SetYarn({.factor = 32.0, .original_positions = 4096.0, .truncate = false}, a.rope);
  }
  if (!config.Has("sliding_window") && !config.IsNull("sliding_window")) a.sliding_window = 128;
  ReadLayerTypes(config, model, a);
  if (a.sliding_window == 0 && std::ssize(a.full_layers) < model.layers) {
    config.Fail("sliding_window", "is null, and layer_types has layers of sliding_attention");
  }
  a.has_bias = a.has_output_bias = config.BoolOr("attention_bias", true);
  a.has_sinks = true;
  MoeDescription& moe = model.moe;
  ReadExperts(config, config.Either("num_local_experts", "num_experts"), 128, "num_experts_per_tok",
              4, moe);
  moe.intermediate =
      static_cast<int>(config.IntegerOr("intermediate_size", 2880, 1, kMaxIntermediate));
  moe.renormalize = true;
  moe.has_logit_bias = true;
  moe.has_expert_bias = true;
  moe.swiglu_limit = static_cast<float>(config.NumberOr("swiglu_limit", 7.0, 1e-3, 1e6));
  moe.swiglu_alpha = static_cast<float>(config.NumberOr("swiglu_alpha", 1.702, 1e-3, 1e3));
  return model;
}

}  // namespace janus
