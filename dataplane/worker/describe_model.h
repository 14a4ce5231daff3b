#pragma once

#include <string>

#include "common/control.h"
#include "common/status.h"

namespace janus::dataplane {

// The checkpoint in `folder` and the room of this process, as whoever plans an epoch asks for them.
// Reads config.json and some kilobytes of each file of weights. NotFound, Unavailable: with the
// path; InvalidArgument: config.json is larger than 1 MiB.
Result<ModelReport> DescribeModel(const std::string& folder);

}  // namespace janus::dataplane
