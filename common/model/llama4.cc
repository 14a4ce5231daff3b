#include "common/model/llama4.h"

#include <algorithm>

#include "common/model/family.h"

namespace janus {
namespace {

// Older files have an integer, which is true unless it is 0.
bool ReadTemperatureTuning(ConfigReader& config) {
  constexpr std::string_view kField = "attn_temperature_tuning";
  const std::string shown = config.Shown(kField);
  if (shown.empty() || shown == "true" || shown == "false") return config.BoolOr(kField, true);
  return config.IntegerOr(kField, 1, 0, kMaxPositions) != 0;
}

// no_rope_layers has a 1 for each layer with rope. Without it every so many layers one has none.
void ReadNoRopeLayers(ConfigReader& config, const ModelDescription& model,
                      AttentionDescription& attention) {
  const std::vector<int64_t> has_rope = config.Integers("no_rope_layers", 0, 1);
  if (!has_rope.empty() && std::ssize(has_rope) < model.layers) {
    config.Fail("no_rope_layers", "has " + std::to_string(has_rope.size()) +
                                      " entries; num_hidden_layers is " +
                                      std::to_string(model.layers));
    return;
  }
  const int64_t interval = config.IntegerOr("no_rope_layer_interval", 4, 1, kMaxLayers);
  for (int layer = 0; layer < model.layers; ++layer) {
    const bool has =
        has_rope.empty() ? (layer + 1) % interval != 0 : has_rope[static_cast<size_t>(layer)] != 0;
    if (!has) attention.no_rope_layers.push_back(layer);
  }
}

// Unless the file lists them, layers with rope are chunked and the others are full.
void ReadLayerTypes(ConfigReader& config, const ModelDescription& model,
                    AttentionDescription& attention) {
  if (config.IsNull("attention_chunk_size")) {
    config.Fail("attention_chunk_size", "is null; want the positions of a chunk");
  }
  attention.chunk =
      static_cast<int>(config.IntegerOr("attention_chunk_size", 8192, 1, kMaxPositions));
  if (!config.Has("layer_types")) {
    attention.full_layers = attention.no_rope_layers;
    return;
  }
  const std::vector<std::string> types = config.Strings("layer_types");
  if (std::ssize(types) != model.layers) {
    config.Fail("layer_types", "has " + std::to_string(types.size()) +
                                   " entries; num_hidden_layers is " +
                                   std::to_string(model.layers));
    return;
  }
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string& type = types[static_cast<size_t>(layer)];
    if (type == "full_attention") {
      attention.full_layers.push_back(layer);
    } else if (type != "chunked_attention") {
      config.Fail("layer_types", "'" + type +
                                     "' is not supported; supported: full_attention, "
                                     "chunked_attention");
    }
  }
}

void ReadMoeLayers(ConfigReader& config, ModelDescription& model) {
  const bool is_listed = config.Has("moe_layers");
  const std::vector<int64_t> listed = config.Integers("moe_layers", 0, kMaxLayers);
  const int64_t step = config.IntegerOr("interleave_moe_layer_step", 1, 1, kMaxLayers);
  ReadDenseLayers(
      config, is_listed ? "moe_layers" : "interleave_moe_layer_step",
      [&](int layer) {
        return is_listed ? std::find(listed.begin(), listed.end(), layer) != listed.end()
                         : (layer + 1) % step == 0;
      },
      model, "intermediate_size_mlp");
}

}  // namespace

ModelDescription ReadLlama4TextConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-5, QuantizedExperts::kNone);
  if (!config.Has("head_dim")) config.Fail("head_dim", "is missing");
  if (config.Has("sliding_window")) {
    config.Fail("sliding_window", "is not supported for this family");
  }
  AttentionDescription& a = model.attention;
  a = ReadGroupedQueryAttention(config, model.hidden, {.kv_heads = 8, .theta = 500000.0});
  a.rope.pairing = RopePairing::kInterleaved;
  a.has_bias = a.has_output_bias = config.BoolOr("attention_bias", false);
  if (config.BoolOr("use_qk_norm", true)) a.norm = QueryKeyNorm::kTurnedHeads;
  ReadNoRopeLayers(config, model, a);
  ReadLayerTypes(config, model, a);
  if (ReadTemperatureTuning(config)) {
    a.temperature = {
        .scale = config.NumberOr("attn_scale", 0.1, 0.0, 1e3),
        .floor = static_cast<int>(config.IntegerOr("floor_scale", 8192, 1, kMaxPositions))};
  }
  MoeDescription& moe = model.moe;
  ReadExperts(config, "num_local_experts", 16, "num_experts_per_tok", 1, moe);
  moe.intermediate =
      static_cast<int>(config.IntegerOr("intermediate_size", 8192, 1, kMaxIntermediate));
  moe.shared_intermediate = moe.intermediate;
  moe.score = GateScore::kSigmoidOfChosen;
  moe.weighs_inputs = true;
  ReadMoeLayers(config, model);
  return model;
}

ModelDescription ReadLlama4Config(ConfigReader& config) {
  const bool is_tied = config.BoolOr("tie_word_embeddings", false);
  config.Enter("text_config", {"dtype", "torch_dtype", "quantization_config"});
  if (is_tied && !config.BoolOr("tie_word_embeddings", false)) {
    config.Fail("tie_word_embeddings",
                "is not true, but that of the whole model is; set both alike");
  }
  return ReadLlama4TextConfig(config);
}

}  // namespace janus
