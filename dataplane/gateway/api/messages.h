#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads `messages` of /v1/chat/completions into the request's forms. An assistant's message may
// have tool_calls and no content. The arguments of its calls become objects if they are JSON,
// because templates print them.
void ReadMessages(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
