#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "controllers/simulate/workload.h"

namespace janus::cli {

// What to replay: a trace, or totals per window.
struct DemandOptions {
  std::string trace;  // one of trace and rates
  std::string rates;
  double scale = 1;
  int max_weight = 100;
  double from_hours = 0;
  double hours = 0;  // 0: to the end
  uint64_t seed = 1;
  bool prefill_elsewhere = false;  // prompts arrive computed, all but their last token
};

// Requests from the asked hours, times from their begin. InvalidArgument: neither or both are
// given, nothing is left, a file is broken. NotFound: cannot be read.
Result<std::vector<controllers::SimulatedRequest>> ReadDemand(const DemandOptions& options);

// One line for reports.
std::string Describe(const DemandOptions& options,
                     const std::vector<controllers::SimulatedRequest>& requests);

}  // namespace janus::cli
