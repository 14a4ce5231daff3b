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

// What is replayed. Times count from `begin_hours` of the file's clock: from --from-hours, or from
// the ten minutes in which the first request comes where that is later, so that nothing is decided
// or paid for before there is a service.
struct DemandRead {
  std::vector<controllers::SimulatedRequest> requests;
  double begin_hours = 0;
};

// More groups than these are refused: 24 bytes each, and the patience of who waits.
inline constexpr double kMostGroups = 5e7;

// InvalidArgument: neither or both are given, nothing is left, a scale that is none or makes more
// than kMostGroups, a file that is broken. NotFound: cannot be read.
Result<DemandRead> ReadDemand(const DemandOptions& options);

// One line for reports.
std::string Describe(const DemandOptions& options, const DemandRead& demand);

}  // namespace janus::cli
