#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "operator/local/environment.h"

namespace janus::cli {

// In the state folder of a service that runs: where its objects are reached, a link to a socket.
inline constexpr char kApiLink[] = "api";

// A service that a janusctl of this user serves on this machine.
struct RunningService {
  control::ObjectKey key;
  std::unique_ptr<control::ObjectApi> api;
};

// There is none, and what to do.
Status NoServiceRuns();

// Those that answer, by name. `timeline` outlives them.
std::vector<RunningService> FindRunningServices(const control::Environment& environment,
                                                const control::Timeline& timeline);

// The one of that name; an empty name: the only one. NotFound: there is none, with what to do;
// InvalidArgument: there are several, with their names.
Result<RunningService> FindRunningService(const control::Environment& environment,
                                          const control::Timeline& timeline,
                                          const std::string& name);

}  // namespace janus::cli
