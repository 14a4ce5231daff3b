#pragma once

#include <memory>
#include <vector>

#include "common/clock.h"
#include "controllers/observe/routing_window.h"
#include "controllers/scaling/decide.h"
#include "controllers/scaling/policy.h"
#include "controllers/scaling/world.h"
#include "operator/scaling/decision_record.h"
#include "operator/scaling/prediction_basis.h"
#include "operator/scaling/predictor_inputs.h"

namespace janus::control {

// What decisions are made with. Together with the worlds since the first decision of a process it
// gives the same decisions again (records/replay.h).
struct RecordedSetting {
  controllers::ScalingPolicy policy;
  PredictorInputs inputs;
  PredictionBasis basis;  // that factors are learned against; empty in records of earlier versions
  friend bool operator==(const RecordedSetting&, const RecordedSetting&) = default;
};

// One decision on counts: what it saw, and what it decided. Constant once it is made.
struct TickRecord {
  WallTime time;
  bool begins = false;  // the decision had no memory of an earlier one
  std::shared_ptr<const RecordedSetting> setting;
  controllers::World world;
  controllers::Decision decision;
  DecisionRecord summary;
};

// The placement of a service, and the routing that it was made for.
struct PlacementRecord {
  WallTime time;
  std::string message;  // of the last search; empty: there was none yet
  double busiest_before = 0;
  double busiest_after = 0;
  std::vector<std::string> instances;  // by rank
  struct Layer {
    std::vector<double> share;                 // [E] of the sampled rows that chose the expert
    std::vector<std::vector<uint16_t>> slots;  // [n] experts on each instance
  };
  std::vector<Layer> layers;
  controllers::RoutingWindow rounds;  // what was sampled, oldest first
};

}  // namespace janus::control
