#include "operator/api/quantity.h"

#include <array>
#include <cstdio>
#include <limits>
#include <optional>

namespace janus::control {
namespace {

using Wide = __int128;

// A factor as a fraction, exact for every suffix.
struct Scale {
  Wide up = 1;
  Wide down = 1;
};

std::optional<Scale> SuffixScale(std::string_view suffix) {
  static constexpr std::string_view kBig = "kMGTPE";
  static constexpr std::string_view kSmall = "mun";
  if (suffix.empty()) return Scale{};
  if (suffix.size() == 1) {
    if (const size_t i = kBig.find(suffix[0]); i != std::string_view::npos) {
      Scale scale;
      for (size_t j = 0; j <= i; ++j) scale.up *= 1000;
      return scale;
    }
    if (const size_t i = kSmall.find(suffix[0]); i != std::string_view::npos) {
      Scale scale;
      for (size_t j = 0; j <= i; ++j) scale.down *= 1000;
      return scale;
    }
    return std::nullopt;
  }
  if (suffix.size() == 2 && suffix[1] == 'i') {
    static constexpr std::string_view kBinary = "KMGTPE";
    if (const size_t i = kBinary.find(suffix[0]); i != std::string_view::npos) {
      return Scale{Wide{1} << (10 * (i + 1)), 1};
    }
    return std::nullopt;
  }
  if (suffix[0] == 'e' || suffix[0] == 'E') {
    std::string_view digits = suffix.substr(1);
    const bool negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
    if (digits.empty() || digits.size() > 2) return std::nullopt;
    int power = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return std::nullopt;
      power = power * 10 + (c - '0');
    }
    if (power > 18) return std::nullopt;
    Scale scale;
    for (int i = 0; i < power; ++i) (negative ? scale.down : scale.up) *= 10;
    return scale;
  }
  return std::nullopt;
}

int64_t RoundUp(Wide numerator, Wide denominator) {
  const Wide limit = std::numeric_limits<int64_t>::max();
  const Wide quotient = numerator / denominator + (numerator % denominator > 0 ? 1 : 0);
  return static_cast<int64_t>(quotient > limit ? limit : quotient);
}

}  // namespace

Quantity UnitsOf(int64_t value) {
  const Wide milli = Wide{value} * 1000;
  return {value, RoundUp(milli, 1), std::to_string(value)};
}

Result<Quantity> ParseQuantity(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return InvalidArgument("'" + std::string(text.substr(0, 64)) + "' " + std::string(why) +
                           "; write a number with a unit, as 512Mi, 4Gi or 2G");
  };
  size_t at = 0;
  bool negative = false;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) negative = text[at++] == '-';
  Wide number = 0;
  Wide fraction = 1;
  int digits = 0;
  bool point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !point) {
      point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9') break;
    // 19 digits times the largest suffix (2^60) is below 2^127.
    if (++digits > 19) return refuse("has more than 19 digits");
    number = number * 10 + (text[at] - '0');
    if (point) fraction *= 10;
  }
  if (digits == 0) return refuse("is not a quantity");
  const std::optional<Scale> scale = SuffixScale(text.substr(at));
  if (!scale) return refuse("is not a quantity");
  if (negative) return refuse("is negative");
  const Wide numerator = number * scale->up;
  const Wide denominator = fraction * scale->down;
  Quantity out;
  out.value = RoundUp(numerator, denominator);
  // Divide first where the product could exceed 127 bits; milli saturates there, so nothing is
  // lost.
  out.milli = numerator / denominator > std::numeric_limits<int64_t>::max() / 1000
                  ? std::numeric_limits<int64_t>::max()
                  : RoundUp(numerator * 1000, denominator);
  out.text = text;
  return out;
}

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  char buffer[32];
  const bool fraction = unit > 0 && value < 9.95;
  std::snprintf(buffer, sizeof(buffer), fraction ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return buffer;
}

}  // namespace janus::control
