#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "operator/local/environment.h"

namespace janus::cli {

// The name of a link in the state folder of a running service. It points to the API socket.
inline constexpr char kApiLink[] = "api";

// A service that a janusctl of the same user serves on this machine.
struct RunningService {
  control::ObjectKey key;
  std::unique_ptr<control::ObjectApi> api;
  std::string socket;  // of the API and of the records of decisions
};

// The error if no service runs. It says how to start one.
Status NoServiceRuns();

// All services that answer, sorted by name. `timeline` must outlive them.
std::vector<RunningService> FindRunningServices(const control::Environment& environment,
                                                const control::Timeline& timeline);

// The service with that name; with an empty name, the only one that runs. NotFound: no such
// service, and what to do. InvalidArgument: several run; the message lists their names.
Result<RunningService> FindRunningService(const control::Environment& environment,
                                          const control::Timeline& timeline,
                                          const std::string& name);

}  // namespace janus::cli
