#pragma once

#include <string_view>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Reads plain (unquoted) YAML scalars as kubectl does before it sends them to the API server: YAML
// 1.1 as in go-yaml 2. `yes`, `On` and `y` are true, 0644 is 420, 0x3c, 6_0 and 60.0 are 60; a date
// is a string. The YAML library decides which scalars are null. Pure.

// Returns kBool, kInteger, kFloat or kString. InvalidArgument: an integer beyond 64 bits; .inf and
// .nan, which JSON lacks; <<, since merging is not supported.
Result<Node> ReadPlain(std::string_view text);

// True if a string needs quotes so that no YAML 1.1 or 1.2 reader takes it for another type.
bool NeedsQuotes(std::string_view text);

}  // namespace janus::control
