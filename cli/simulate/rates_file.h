#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "controllers/simulate/workload.h"

namespace janus::cli {

// Totals of a service per window, in the format of ServeGen: CSV with the columns window_start_s,
// rate_rps, and mean, p50, p90 and p99 of in_* and out_* tokens. Windows ascend. InvalidArgument: a
// column is missing, or a row is broken (the message has its line).
Result<std::vector<controllers::RateWindow>> ParseRates(std::string_view csv);

// The same from a file, plain or gzip. NotFound: the file cannot be read.
Result<std::vector<controllers::RateWindow>> ReadRates(const std::string& path);

}  // namespace janus::cli
