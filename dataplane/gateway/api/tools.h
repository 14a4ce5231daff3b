#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads `tools`, `tool_choice` and `parallel_tool_calls` of /v1/chat/completions.
void ReadTools(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
