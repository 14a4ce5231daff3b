#pragma once

#include <string>
#include <vector>

#include "cli/screen.h"
#include "common/status.h"
#include "common/stop_signals.h"
#include "hub/cache.h"
#include "hub/download.h"

namespace janus::cli {

struct ModelsOptions {
  std::string model;      // owner/name[@revision]; empty: list the cache
  bool download = false;  // with a model: fetch its weights too
};

// A model in the cache as a row of `janusctl models`.
struct ModelRow {
  hub::CachedSnapshot snapshot;
  std::string family;  // or why this version does not serve it; empty: no config.json
  std::vector<std::string> services;  // of this machine that use it
};

// The rows as a table; its footer says where the cache is. Pure.
std::string RenderModels(const std::vector<ModelRow>& rows, const std::string& cache);

// What a model needs on one machine with one instance of each role, as text: bytes to download,
// memory of each role, and whether this machine has it. Reads config.json of its folder.
// InvalidArgument: this version does not serve it.
Result<std::string> DescribeNeeds(const hub::ModelId& model, const hub::LocalModel& local);

// Runs `janusctl models`.
Status Models(const ModelsOptions& options, StopSignals& stop);

}  // namespace janus::cli
