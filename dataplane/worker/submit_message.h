#pragma once

#include "common/status.h"
#include "dataplane/engine/request.h"
#include "proto/tokens.pb.h"

namespace janus::dataplane {

// Converts a Submit to the engine's request. InvalidArgument names the field. `stream` identifies
// the connection. Prompt and answer have at most `max_model_len` tokens.
Result<Request> ToRequest(const v1::Submit& submit, uint64_t stream, int64_t max_model_len);

}  // namespace janus::dataplane
