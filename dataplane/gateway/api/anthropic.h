#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads `system`, `messages` and `thinking` of Anthropic's /v1/messages as the messages of a chat.
// A block of reasoning becomes `reasoning_content`, tool_use a call, and tool_result a message of
// the role tool. If the last message is the assistant's, the answer continues it.
void ReadAnthropic(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
