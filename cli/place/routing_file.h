#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "controllers/replicas/activations.h"

namespace janus::cli {

// Reads measured routing from CSV, plain or gzip. Each row is a token; column layer<i> holds its
// expert ids in that layer, separated by blanks. Other columns are ignored. A folder stands for its
// files (*.csv, *.csv.gz) in order of their names; all must have the same layers. `experts` 0: one
// more than the highest id of any layer. Layers are sorted by number. Errors name file, line and
// column.
Result<std::vector<controllers::RoutingLayer>> ReadRouting(const std::string& path, int experts);

}  // namespace janus::cli
