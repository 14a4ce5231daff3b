#pragma once

#include <optional>
#include <string_view>

#include "common/clock.h"

namespace janus::control {

// Parses a Retry-After header (RFC 9110, 10.2.3): seconds, or a date in the form that servers must
// write ("Sun, 06 Nov 1994 08:49:37 GMT"; not its two obsolete forms). A date is relative to the
// reply's Date header, so that clocks need not agree; without one, relative to `now`. A past date
// means no wait. Nothing: the value is invalid. Pure.
std::optional<Seconds> ParseRetryAfter(std::string_view value, std::string_view date, WallTime now);

}  // namespace janus::control
