#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"

namespace janus::control {

// "2026-11-22T03:04:05Z", "2026-11-22T03:04:05.123456+01:00". InvalidArgument: anything else.
Result<WallTime> ParseTime(std::string_view text);

// True if an API server accepts it for `format: date-time`: with a T between date and time, and
// without a leap second (which ParseTime accepts).
bool IsDateTime(std::string_view text);

// In the format of the API's Time (whole seconds) and MicroTime; UTC.
std::string FormatTime(WallTime time);
// The same for times beyond WallTime's 584 years. REQUIRES: year 0 to 9999.
std::string FormatTime(std::chrono::sys_seconds time);
std::string FormatMicroTime(WallTime time);

}  // namespace janus::control
