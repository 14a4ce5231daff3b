#pragma once

#include <string_view>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Plain (unquoted) scalars of YAML as kubectl reads them, and so what reaches the API server of
// them: YAML 1.1 as go-yaml 2 has it. `yes`, `On` and `y` are true, 0644 is 420, 0x3c, 6_0 and 60.0
// are 60; a date is a string. What is null is the library's to say. Pure.

// kBool, kInteger, kFloat or kString. InvalidArgument: an integer beyond 64 bits; an infinity or
// no number (.inf, .nan), which JSON does not have; <<, as fields are not merged here.
Result<Node> ReadPlain(std::string_view text);

// Whether a string has to be quoted, so that no reader, of YAML 1.1 or 1.2, takes it for another
// kind of value.
bool NeedsQuotes(std::string_view text);

}  // namespace janus::control
