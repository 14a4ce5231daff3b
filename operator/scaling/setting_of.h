#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/model/description.h"
#include "common/status.h"
#include "controllers/scaling/policy.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/moeservice.h"
#include "operator/api/supported.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/scaling/prediction_basis.h"
#include "operator/scaling/predictor_inputs.h"

namespace janus::control {

// What a timed device stands for. Predictions are then those of the named model on the named
// device, and loads and memory stay those of the service.
struct StandsFor {
  std::string hardware;     // a preset of common/hardware.h
  std::string model;        // a preset of controllers/plan/model_shape.h
  double rows_for_one = 1;  // rows of the named model that one row of the service stands for
  double times_faster = 1;  // all times are divided by it
};

// What a running service is known by.
struct RunningService {
  const MoEServiceSpec& spec;     // has passed ValidateSchema and ValidateSupported
  const PlannedService& planned;  // its model, memory and devices
  const controllers::ScalingPolicy& policy;
  std::span<const HardwareProfileObject> profiles = {};  // have passed ValidateSchema
  Ground ground = Ground::kCluster;
  // Instances of a pool that serve now. A predictor knows them, even where the policy allows fewer.
  int m = 0;
  int n = 0;
  std::optional<StandsFor> stands_for = std::nullopt;  // of timed devices
};

// The most micro-batches that decisions may choose: as many as the spec says; if it says none,
// kMaxMicroBatches, and on CPUs one, since both roles then share the cores that a second one would
// fill. CPUs whose roles name a HardwareProfile count as that hardware. Pure.
int MostMicroBatches(const MoEServiceSpec& spec);

// What a predictor of its pools is built from. It knows only what this version serves: one device
// an instance, and the exchange of the plan. Of its modes: all that an epoch may take. Timed
// devices play Direct in bf16, whatever the plan's exchange is. Up to MostMicroBatches. KV tokens
// and slots are those of the plan.
//
// Errors: of HardwareOf; NotFound: no such preset of a timed device; InvalidArgument: its model has
// fewer experts than the served one. Pure.
Result<PredictorInputs> InputsOf(const RunningService& service);

// What these inputs are made from. Errors and purity are those of InputsOf.
Result<PredictionBasis> BasisOf(const RunningService& service);

}  // namespace janus::control
