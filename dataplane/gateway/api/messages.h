#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads `messages` of /v1/chat/completions into the request's forms. An assistant's message may
// have tool_calls and no content.
void ReadMessages(Fields& fields, CompletionRequest* request);

// The same for a list in that form, not empty; Refused names its messages `param`. The arguments of
// calls become objects if they are JSON, because templates print them.
void TakeMessages(const Json& list, std::string_view param, CompletionRequest* request);

}  // namespace janus::gateway
