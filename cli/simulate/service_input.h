#pragma once

#include <string>

#include "cli/simulate/command.h"
#include "common/status.h"

namespace janus::cli {

// A MoEService file, as `janusctl simulate --service` takes it: scaling, and, where given, the
// model's folder and the hardware profiles of the roles. InvalidArgument lists what is wrong with
// the file; NotFound: it cannot be read.
Status ReadServiceInto(const std::string& file, SimulateOptions& options);

}  // namespace janus::cli
