#pragma once

#include <string>

#include "cli/simulate/command.h"
#include "operator/api/moeservice.h"

namespace janus::cli {

// Takes what a MoEService sets for scaling: targets, counts, granules, behaviors, ratio, limits,
// predictor. Fields that it does not set keep the value in `scaling`. InvalidArgument: it has no
// TPOT target.
Status FillScaling(const control::MoEServiceSpec& spec, controllers::ScalingPolicy& scaling);

// Reads a MoEService file for `janusctl simulate --service`: scaling and, if given, the model's
// folder and the hardware profiles of the roles. InvalidArgument lists what is wrong with the file.
// NotFound: it cannot be read.
Status ReadServiceInto(const std::string& file, SimulateOptions& options);

}  // namespace janus::cli
