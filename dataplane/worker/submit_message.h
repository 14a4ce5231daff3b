#pragma once

#include "common/status.h"
#include "dataplane/engine/request.h"
#include "proto/tokens.pb.h"

namespace janus::dataplane {

// A Submit as the engine's request; InvalidArgument names the field. `stream` is the connection's;
// prompt and answer are at most `max_model_len` tokens.
Result<Request> ToRequest(const v1::Submit& submit, uint64_t stream, int64_t max_model_len);

}  // namespace janus::dataplane
