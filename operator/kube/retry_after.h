#pragma once

#include <optional>
#include <string_view>

#include "common/clock.h"

namespace janus::control {

// What a Retry-After header asks for (RFC 9110, 10.2.3): a number of seconds, or a date in the form
// that servers must write ("Sun, 06 Nov 1994 08:49:37 GMT"; not its two obsolete forms). A date
// counts from the reply's own Date, so that the two machines' clocks need not agree, or from `now`
// where there is none; one that is past asks for no wait. Nothing: it is neither. Pure.
std::optional<Seconds> ParseRetryAfter(std::string_view value, std::string_view date, WallTime now);

}  // namespace janus::control
