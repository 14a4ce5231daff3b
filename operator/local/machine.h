#pragma once

#include <string>

#include "common/status.h"

namespace janus::control {

// The port on which `host` can be listened at: `port`, or for 0 one that is free now. Binds and
// lets go. AlreadyExists: in use; InvalidArgument: no such address here; names both.
Result<int> FindPort(const std::string& host, int port);

}  // namespace janus::control
