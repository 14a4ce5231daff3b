#pragma once

#include <optional>
#include <string>

#include "common/status.h"
#include "common/stop_signals.h"

namespace janus::cli {

// janusctl get, describe, scale and delete. They call the object store of a service that another
// janusctl serves on this machine. An empty name means the only running service. Errors are those
// of the store, the same as an API server's. NotFound: no such service runs.

struct GetOptions {
  std::string kind = "services";  // services, pods, events, topologies, deployments, scalers
  std::string name;               // of a service
  std::string output;             // "", "yaml", "json"
  bool show_managed_fields = false;
};
Result<std::string> Get(const GetOptions& options);

Result<std::string> Describe(const std::string& name);

// Scales a role in mode External through its MoERoleScaler, other roles and the pools through the
// MoEService.
struct ScaleOptions {
  std::string name;
  std::optional<int> attention;
  std::optional<int> experts;
  std::optional<int> pools;
  bool wait = false;  // until that many instances serve, or a signal
};
Result<std::string> Scale(const ScaleOptions& options, StopSignals& stop);

// Ends the service and deletes all its objects.
Result<std::string> Delete(const std::string& name);

}  // namespace janus::cli
