#pragma once

#include <string>

#include "common/status.h"
#include "controllers/plan/performance.h"
#include "controllers/replicas/activations.h"

namespace janus::cli {

// What plan and simulate ask alike: a model on devices.
struct SettingOptions {
  std::string model;  // a preset, or a checkpoint's folder
  std::string attention_hardware = "H100";
  std::string expert_hardware = "H100";
  std::string routing;  // measured routing of the model; empty: uniform
  bool fp8_kv_cache = false;
};

// A preset by name, or a checkpoint's folder. NotFound, InvalidArgument: neither.
Result<controllers::ModelShape> ReadModel(const std::string& model);

// Whether every layer that was measured is one of the model's; `path` names them.
Status CheckRouting(const std::string& path, const std::vector<controllers::RoutingLayer>& layers,
                    const controllers::ModelShape& model);

// NotFound, InvalidArgument: what is wrong and what to do.
Result<controllers::Setting> ReadSetting(const SettingOptions& options);

}  // namespace janus::cli
