#pragma once

#include <string>

#include "common/status.h"

namespace janus::control {

// Returns `port` if `host` can listen on it; for 0, a free port. It binds the port and releases it.
// AlreadyExists: in use; InvalidArgument: `host` is not a local address. Errors name both.
Result<int> FindPort(const std::string& host, int port);

}  // namespace janus::control
