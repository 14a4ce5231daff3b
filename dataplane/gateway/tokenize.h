#pragma once

#include <cstdint>
#include <string>

#include "common/clock.h"
#include "dataplane/gateway/prepare.h"
#include "dataplane/gateway/request_error.h"

namespace janus::gateway {

// The answer of /tokenize, in vLLM's form, to {"prompt": text} or {"messages": [...]} with the
// parameters that shape a prompt: {"count", "max_model_len", "tokens", "token_strs"}. Other
// parameters have no effect. The model may be omitted. Thread-safe.
RequestResult<std::string> Tokenize(const ServedModel& model, int64_t max_context_tokens,
                                    const std::string& body, WallTime now);

// The answer of Anthropic's /v1/messages/count_tokens to the body of a message, where max_tokens
// may be absent: {"input_tokens"}. Thread-safe.
RequestResult<std::string> CountTokens(const ServedModel& model, const std::string& body,
                                       WallTime now);

// The answer of /detokenize to {"tokens": [...]}: {"prompt"}. Control tokens are shown.
RequestResult<std::string> Detokenize(const ServedModel& model, const std::string& body);

}  // namespace janus::gateway
