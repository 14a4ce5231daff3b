#pragma once

#include <string>

#include "common/status.h"

namespace janus::control {

// Whether `host:port` can be listened on: binds and lets go. Port 0 always can.
// AlreadyExists: in use; InvalidArgument: no such address here; names both.
Status CheckCanListen(const std::string& host, int port);

}  // namespace janus::control
