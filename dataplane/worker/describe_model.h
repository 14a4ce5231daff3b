#pragma once

#include <string>

#include "common/control.h"
#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// The checkpoint in `folder`, and the memory and cores of this process, which computes in
// `context`. The planner of an epoch asks for them. Reads config.json and some kilobytes of each
// weight file. NotFound, Unavailable: with the path. InvalidArgument: config.json is larger than 1
// MiB. Also the device's own errors.
Result<ModelReport> DescribeModel(const std::string& folder, kernels::Context& context);

}  // namespace janus::dataplane
