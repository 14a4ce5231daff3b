#pragma once

#include <string>

#include "common/status.h"
#include "controllers/plan/performance.h"
#include "controllers/replicas/activations.h"

namespace janus::cli {

// Options that plan and simulate share: a model on devices.
struct SettingOptions {
  std::string model;  // a preset, or the folder of a checkpoint
  std::string attention_hardware = "H100";
  std::string expert_hardware = "H100";
  std::string routing;  // measured routing of the model; empty: uniform routing
  bool fp8_kv_cache = false;
};

// What is not searched for in the exchange.
struct ExchangeOptions {
  int sum_bits = 32;  // of the sum rule FixedPoint
  // Instances of a role that share memory; 0: as many as a node of the hardware has GPUs for.
  int attention_per_node = 0;
  int experts_per_node = 0;
};

// `model` is a preset or the folder of a checkpoint. NotFound, InvalidArgument: it is neither.
Result<controllers::ModelShape> ReadModel(const std::string& model);

// Checks that every measured layer is a layer of the model. `path` names the measurement.
Status CheckRouting(const std::string& path, const std::vector<controllers::RoutingLayer>& layers,
                    const controllers::ModelShape& model);

// NotFound, InvalidArgument: what is wrong and what to do.
Result<controllers::Setting> ReadSetting(const SettingOptions& options);

}  // namespace janus::cli
