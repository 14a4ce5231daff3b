#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// `messages` of /v1/chat/completions, into the request's forms of them. An assistant's message may
// have tool_calls and no content; the arguments of its calls become objects where they are JSON, as
// templates print them.
void ReadMessages(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
