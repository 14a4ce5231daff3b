#pragma once

#include <string_view>
#include <vector>

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Token ids: integers from 0 on, of 32 bits. Refused names `name`.
std::vector<int32_t> ReadTokenIds(const Json& list, std::string_view name);

// `prompt` of /v1/completions. Refused names a prompt of a list by its index.
void ReadPrompts(Fields& fields, CompletionRequest* request);

}  // namespace janus::gateway
