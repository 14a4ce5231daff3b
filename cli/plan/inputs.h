#pragma once

#include <string>

#include "common/status.h"
#include "controllers/plan/performance.h"

namespace janus::cli {

// What plan and simulate ask alike: a model on devices.
struct SettingOptions {
  std::string model;  // a preset, or a checkpoint's folder
  std::string attention_hardware = "H100";
  std::string expert_hardware = "H100";
  std::string routing;  // measured routing of the model; empty: uniform
};

// NotFound, InvalidArgument: what is wrong and what to do.
Result<controllers::Setting> ReadSetting(const SettingOptions& options);

}  // namespace janus::cli
