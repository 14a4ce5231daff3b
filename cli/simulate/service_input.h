#pragma once

#include <string>

#include "cli/simulate/command.h"
#include "operator/api/moeservice.h"

namespace janus::cli {

// What a MoEService asks of scaling: targets, counts, granules, behaviors, ratio, limits,
// predictor. What it leaves open stays as `scaling` has it. InvalidArgument: it has no TPOT target.
Status FillScaling(const control::MoEServiceSpec& spec, controllers::ScalingPolicy& scaling);

// A MoEService file, as `janusctl simulate --service` takes it: scaling, and, where given, the
// model's folder and the hardware profiles of the roles. InvalidArgument lists what is wrong with
// the file; NotFound: it cannot be read.
Status ReadServiceInto(const std::string& file, SimulateOptions& options);

}  // namespace janus::cli
