#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "controllers/simulate/workload.h"

namespace janus::cli {

// What to replay: a trace, or totals per window. Exactly one of them is set.
struct DemandOptions {
  std::string trace;  // this or `rates`
  std::string rates;
  double scale = 1;
  int max_weight = 100;
  double from_hours = 0;
  double hours = 0;  // 0: to the end
  uint64_t seed = 1;
  bool prefill_elsewhere = false;  // only the last token of a prompt is computed here
};

// The requests to replay. Times count from `begin_hours` of the file's clock. That is --from-hours
// or, if later, the start of the ten minutes of the first request. No policy decides or pays for
// the time before.
struct DemandRead {
  std::vector<controllers::SimulatedRequest> requests;
  double begin_hours = 0;
};

// The most groups that are accepted. Each takes 24 bytes, and time.
inline constexpr double kMostGroups = 5e7;

// InvalidArgument: not exactly one source is given, no request is left, the scale is not positive
// or makes more than kMostGroups, or the file is broken. NotFound: the file cannot be read.
Result<DemandRead> ReadDemand(const DemandOptions& options);

// A line for reports.
std::string Describe(const DemandOptions& options, const DemandRead& demand);

}  // namespace janus::cli
