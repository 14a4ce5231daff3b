#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads `tools`, `tool_choice` and `parallel_tool_calls` in the form of the request's endpoint.
// The request gets the tools in the form of /v1/chat/completions, which chat templates read.
void ReadTools(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
