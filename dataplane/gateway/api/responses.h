#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads `instructions`, `input`, `reasoning` and `include` of OpenAI's /v1/responses as the
// messages of a chat: the role developer is system, reasoning becomes `reasoning_content`,
// function_call a call, and function_call_output a message of the role tool.
void ReadResponses(Fields& fields, CompletionRequest* request);

// The fields of the request `root` that each answer to it repeats, as a JSON object.
std::string RepeatedFields(const Json& root);

}  // namespace janus::gateway
