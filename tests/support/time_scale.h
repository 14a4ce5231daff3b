#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "tests/support/sanitized.h"

namespace janus {

// How much longer the tests' limits are than on a fast idle machine. `given`: JANUS_TIME_SCALE,
// null if unset. `ci`: the variable CI, likewise. Nothing: `given` is no positive number.
inline std::optional<double> ParseTimeScale(const char* given, const char* ci, bool is_sanitized) {
  if (given == nullptr) {
    const bool is_slow = is_sanitized || (ci != nullptr && *ci != '\0');
    return is_slow ? 10.0 : 1.0;
  }
  const std::string_view text = given;
  double scale = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !std::isfinite(scale) || scale <= 0.0) return std::nullopt;
  return scale;
}

// The scale of this process. Ends the process if JANUS_TIME_SCALE is no positive number.
inline double TimeScale() {
  static const double scale = [] {
    const char* given = std::getenv("JANUS_TIME_SCALE");
    const std::optional<double> parsed = ParseTimeScale(given, std::getenv("CI"), kSanitized);
    if (!parsed) {
      std::fprintf(stderr, "JANUS_TIME_SCALE: '%s' is not a positive number\n", given);
      std::_Exit(2);
    }
    return *parsed;
  }();
  return scale;
}

// For a limit after which a test concludes that an event never comes, or a product limit that a
// slow machine must not reach. Not for a wait after which a test concludes that no event came.
template <class Rep, class Period>
std::chrono::duration<Rep, Period> Scaled(std::chrono::duration<Rep, Period> limit) {
  return std::chrono::duration_cast<std::chrono::duration<Rep, Period>>(
      std::chrono::duration<double, Period>(limit) * TimeScale());
}

// The same for poll(2).
inline int ScaledForPoll(std::chrono::milliseconds limit) {
  return static_cast<int>(Scaled(limit).count());
}

}  // namespace janus
