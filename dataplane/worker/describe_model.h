#pragma once

#include <string>

#include "common/control.h"
#include "common/status.h"
#include "dataplane/worker/cpu_speed.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// The checkpoint in `folder`, and the room and the device of this process, which computes in
// `context` and is one of `instances` that share its machine or container (ShareOf), as the planner
// of an epoch asks for them. `commit`: of a snapshot (DigestModel). Reads config.json and some
// kilobytes of each file of weights. On CPUs the first call measures their speed; a config.json
// that this version cannot read has none. NotFound, Unavailable: with the path; InvalidArgument:
// config.json is larger than 1 MiB. A device's own errors.
Result<ModelReport> DescribeModel(const std::string& folder, kernels::Context& context,
                                  CpuSpeedOnce& cpu_speed, int instances = 1,
                                  const std::string& commit = "");

}  // namespace janus::dataplane
