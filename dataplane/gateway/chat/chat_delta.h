#pragma once

#include <string>
#include <vector>

#include "dataplane/gateway/chat/tool_calls.h"

namespace janus::gateway {

// What more text of a chat's answer adds to each of its parts.
struct ChatDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;
};

}  // namespace janus::gateway
