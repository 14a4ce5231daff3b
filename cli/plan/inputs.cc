#include "cli/plan/inputs.h"

#include <filesystem>

#include "cli/place/routing_file.h"
#include "cli/plan/hardware_file.h"
#include "common/model/config.h"

namespace janus::cli {
namespace {

using controllers::ActivationCurve;
using controllers::ModelShape;
using controllers::Setting;

ModelShape ShapeOf(const ModelDescription& description) {
  ModelShape shape;
  shape.name = description.family;
  shape.layers = description.moe_layers();
  shape.dense_layers = static_cast<int>(description.dense_layers.size());
  shape.dense_intermediate = description.dense_intermediate;
  shape.hidden = description.hidden;
  const AttentionDescription& attention = description.attention;
  shape.heads = attention.heads;
  if (attention.latent) {
    const LatentDescription& latent = *attention.latent;
    const double rotary = attention.rope.rotary_dim;
    // Weights of the queries (from their own latent if the model has one), of the expansion of keys
    // and values, and of the output.
    const double query_input = latent.query_rank > 0 ? latent.query_rank : shape.hidden;
    shape.head_dim = latent.rank + rotary;
    shape.head_weights = query_input * attention.head_dim +
                         latent.rank * (attention.nope_dim() + latent.value_dim) +
                         latent.value_dim * shape.hidden;
    shape.shared_weights = shape.hidden * (latent.query_rank + latent.rank + rotary);
  } else {
    shape.kv_heads = attention.kv_heads;
    shape.head_dim = attention.head_dim;
  }
  shape.experts = description.moe.experts;
  shape.top_k = description.moe.top_k;
  shape.intermediate = description.moe.intermediate;
  shape.shared_intermediate = description.moe.shared_intermediate;
  shape.vocab = description.vocab;
  // For fp8, scales take 1 byte in 4,096 and are left out; for mxfp4 they take 1 in 17.
  const DType type = ExpertType(description);
  shape.bytes_per_weight = static_cast<double>(BitsOf(type)) / 8.0 +
                           (type == DType::kMxfp4 ? 1.0 / static_cast<double>(kMxBlock) : 0.0);
  shape.bytes_per_dense_weight = static_cast<double>(SizeOf(description.dtype));
  shape.bytes_per_kv_value = shape.bytes_per_dense_weight;
  return shape;
}

// Mean over layers of the experts that steps of 1, 2, 4, ... tokens activate.
Result<ActivationCurve> ReadActivation(const std::string& path, const ModelShape& model) {
  constexpr int kSteps = 16;
  JANUS_ASSIGN_OR_RETURN(const auto layers, ReadRouting(path, 0));
  JANUS_RETURN_IF_ERROR(CheckRouting(path, layers, model));
  ActivationCurve curve;
  for (int rows = 1; rows <= layers[0].tokens() && rows <= 4096; rows *= 2) {
    double activated = 0;
    for (const auto& layer : layers) {
      activated += ExpectedActivated(controllers::SampleActivations(layer, rows, kSteps, 1)) /
                   static_cast<double>(layers.size());
    }
    curve.points.push_back({static_cast<double>(rows), activated});
  }
  return curve;
}

}  // namespace

Result<ModelShape> ReadModel(const std::string& model) {
  std::error_code error;
  if (std::filesystem::is_directory(model, error)) {
    JANUS_ASSIGN_OR_RETURN(const ModelDescription description, LoadModelConfig(model));
    return ShapeOf(description);
  }
  Result<ModelShape> preset = controllers::FindModel(model);
  if (!preset.ok()) {
    return std::move(preset).status().Annotate("--model is neither a folder nor a preset");
  }
  return preset;
}

Status CheckRouting(const std::string& path, const std::vector<controllers::RoutingLayer>& layers,
                    const ModelShape& model) {
  for (size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].experts == model.experts && layers[l].top_k == model.top_k) continue;
    return InvalidArgument(path + ": layer " + std::to_string(l) + ": routes to " +
                           std::to_string(layers[l].top_k) + " of " +
                           std::to_string(layers[l].experts) + " experts, " + model.name + " to " +
                           std::to_string(model.top_k) + " of " + std::to_string(model.experts) +
                           "; measure the routing of the model that is planned");
  }
  if (static_cast<int>(layers.size()) > model.layers) {
    return InvalidArgument(path + ": has " + std::to_string(layers.size()) + " layers, " +
                           model.name + " " + std::to_string(model.layers) +
                           " with experts; measure the routing of the model that is planned");
  }
  return OkStatus();
}

Result<Setting> ReadSetting(const SettingOptions& options) {
  Setting setting;
  JANUS_ASSIGN_OR_RETURN(setting.model, ReadModel(options.model));
  if (options.fp8_kv_cache) setting.model.bytes_per_kv_value = setting.model.Fp8BytesPerKvValue();
  JANUS_ASSIGN_OR_RETURN(const HardwareProfile attention, ReadHardware(options.attention_hardware));
  JANUS_ASSIGN_OR_RETURN(const HardwareProfile experts, ReadHardware(options.expert_hardware));
  JANUS_ASSIGN_OR_RETURN(setting.attention,
                         controllers::CostsOf(attention, setting.model.DenseBytesPerWeight()));
  JANUS_ASSIGN_OR_RETURN(setting.experts,
                         controllers::CostsOf(experts, setting.model.DenseBytesPerWeight()));
  if (!options.routing.empty()) {
    JANUS_ASSIGN_OR_RETURN(setting.activation, ReadActivation(options.routing, setting.model));
  }
  return setting;
}

}  // namespace janus::cli
