#pragma once

#include <string>

#include "common/status.h"

namespace janus::text {

// A text file of a model folder, at most 256 MiB. NotFound, or Unavailable with the system's
// reason; the message begins with the path.
Result<std::string> ReadFile(const std::string& path);

}  // namespace janus::text
