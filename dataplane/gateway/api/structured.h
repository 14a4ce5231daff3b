#pragma once

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Reads what the answer must look like: `response_format` (in /v1/responses `text`, in /v1/messages
// `output_config`, which has the effort of reasoning too), `structured_outputs`, or one of
// `guided_json`, `guided_regex`, `guided_choice` and `guided_grammar`. More than one is refused.
void ReadStructured(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
