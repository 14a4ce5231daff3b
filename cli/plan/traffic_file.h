#pragma once

#include <string>

#include "common/status.h"
#include "controllers/plan/traffic.h"

namespace janus::cli {

// What the requests of a trace (cli/trace.h) are like: mean lengths, the law of prompt lengths, and
// the rate of the busiest five minutes; of a shorter trace its mean rate. NotFound,
// InvalidArgument: as ReadTrace; or all requests come within a minute, which says no rate.
Result<controllers::Traffic> ReadTraffic(const std::string& path);

}  // namespace janus::cli
