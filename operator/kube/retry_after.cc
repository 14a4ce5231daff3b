#include "operator/kube/retry_after.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "operator/api/rfc3339.h"

namespace janus::control {
namespace {

// Converts "Sun, 06 Nov 1994 08:49:37 GMT" to "1994-11-06T08:49:37Z" and parses that. The day of
// the week is redundant.
std::optional<WallTime> ParseHttpDate(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != 29 || text.substr(3, 2) != ", " || text[7] != ' ' || text[11] != ' ' ||
      text[16] != ' ' || text.substr(25) != " GMT") {
    return std::nullopt;
  }
  const size_t at = kMonths.find(text.substr(8, 3));
  if (at == kMonths.npos || at % 3 != 0) return std::nullopt;
  std::string month = std::to_string(at / 3 + 1);
  if (month.size() == 1) month.insert(0, "0");
  const Result<WallTime> time =
      ParseTime(std::string(text.substr(12, 4)) + "-" + month + "-" +
                std::string(text.substr(5, 2)) + "T" + std::string(text.substr(17, 8)) + "Z");
  return time.ok() ? std::optional(*time) : std::nullopt;
}

}  // namespace

std::optional<Seconds> ParseRetryAfter(std::string_view value, std::string_view date,
                                       WallTime now) {
  int seconds = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, seconds);
  if (!value.empty() && read.ec == std::errc() && read.ptr == end) {
    return seconds < 0 ? std::nullopt : std::optional(Seconds(seconds));
  }
  const std::optional<WallTime> until = ParseHttpDate(value);
  if (!until) return std::nullopt;
  return std::max(Seconds(0), Seconds(*until - ParseHttpDate(date).value_or(now)));
}

}  // namespace janus::control
