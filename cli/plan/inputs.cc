#include "cli/plan/inputs.h"

#include <filesystem>

#include "cli/place/routing_file.h"
#include "cli/plan/hardware_file.h"
#include "common/model/config.h"
#include "controllers/plan/shape_of.h"

namespace janus::cli {
namespace {

using controllers::ActivationCurve;
using controllers::ModelShape;
using controllers::Setting;

// Mean over layers of what steps of 1, 2, 4, ... tokens activate.
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
    return controllers::ShapeOf(description);
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
    return InvalidArgument(
        path + ": layer " + std::to_string(l) + ": routes to " + std::to_string(layers[l].top_k) +
        " of " + std::to_string(layers[l].experts) + " experts, but " + model.name + " routes to " +
        std::to_string(model.top_k) + " of " + std::to_string(model.experts) +
        "; use routing that was measured with this model");
  }
  if (static_cast<int>(layers.size()) > model.layers) {
    return InvalidArgument(path + ": has " + std::to_string(layers.size()) + " layers, but " +
                           model.name + " has " + std::to_string(model.layers) +
                           " layers with experts; use routing that was measured with this model");
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
