#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "controllers/replicas/activations.h"

namespace janus::cli {

// Measured routing from CSV, plain or gzip: a row per token; columns layer<i> hold that token's
// expert ids, separated by blanks; other columns are passed by. A folder stands for its files
// (*.csv, *.csv.gz) in order of their names, all of the same layers. `experts` 0: one more than the
// highest id of any layer. Layers ascend by their number. Errors name file, line and column.
Result<std::vector<controllers::RoutingLayer>> ReadRouting(const std::string& path, int experts);

}  // namespace janus::cli
