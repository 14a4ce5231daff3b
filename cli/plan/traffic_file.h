#pragma once

#include <string>

#include "common/status.h"
#include "controllers/plan/traffic.h"

namespace janus::cli {

// Computes the traffic of a trace (cli/trace.h): mean lengths, the distribution of prompt lengths,
// and the rate of the busiest five minutes. A shorter trace gives its mean rate. NotFound,
// InvalidArgument: as ReadTrace, or all requests come within a minute, which gives no rate.
Result<controllers::Traffic> ReadTraffic(const std::string& path);

}  // namespace janus::cli
