#include "operator/api/rfc3339.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

namespace janus::control {
namespace {

namespace chrono = std::chrono;

// Takes numbers and marks from the front of a text. After an error it stays failed.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  int Number(size_t digits) {
    int value = 0;
    const auto read =
        std::from_chars(rest_.data(), rest_.data() + std::min(digits, rest_.size()), value);
    // from_chars accepts a sign, a date does not.
    ok_ = ok_ && rest_.size() >= digits && read.ptr == rest_.data() + digits && rest_[0] != '-';
    rest_.remove_prefix(std::min(digits, rest_.size()));
    return value;
  }
  void Mark(std::string_view any_of) {
    ok_ = ok_ && !rest_.empty() && any_of.find(rest_[0]) != any_of.npos;
    if (!rest_.empty()) rest_.remove_prefix(1);
  }
  bool Next(char c) const { return !rest_.empty() && rest_[0] == c; }
  // Digits after the point as microseconds; further digits are dropped.
  int Fraction() {
    int value = 0;
    int places = 0;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1), ++places) {
      if (places < 6) value = value * 10 + (rest_[0] - '0');
    }
    ok_ = ok_ && places > 0;
    for (; places < 6; ++places) value *= 10;
    return value;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::string Format(chrono::sys_time<chrono::microseconds> time) {
  const auto days = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(days);
  const chrono::hh_mm_ss clock(time - days);
  char text[48];
  std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

struct Parts {
  chrono::year_month_day date;
  int hour = 0;
  int minute = 0;
  int second = 0;  // 60 for a leap second
  int micros = 0;
  chrono::minutes offset{0};
};

std::optional<Parts> ReadParts(std::string_view text, std::string_view between) {
  Parts out;
  Reader reader(text);
  const int year = reader.Number(4);
  reader.Mark("-");
  const int month = reader.Number(2);
  reader.Mark("-");
  const int day = reader.Number(2);
  reader.Mark(between);
  out.hour = reader.Number(2);
  reader.Mark(":");
  out.minute = reader.Number(2);
  reader.Mark(":");
  out.second = reader.Number(2);
  if (reader.Next('.')) {
    reader.Mark(".");
    out.micros = reader.Fraction();
  }
  if (reader.Next('Z') || reader.Next('z')) {
    reader.Mark("Zz");
  } else {
    const int sign = reader.Next('-') ? -1 : 1;
    reader.Mark("+-");
    const int hours = reader.Number(2);
    reader.Mark(":");
    out.offset = sign * (chrono::hours(hours) + chrono::minutes(reader.Number(2)));
  }
  out.date = {chrono::year(year), chrono::month(static_cast<unsigned>(month)),
              chrono::day(static_cast<unsigned>(day))};
  const bool is_time = out.hour <= 23 && out.minute <= 59 && out.second <= 60;
  if (!reader.done() || !out.date.ok() || !is_time) return std::nullopt;
  return out;
}

}  // namespace

Result<WallTime> ParseTime(std::string_view text) {
  const std::optional<Parts> parts = ReadParts(text, "Tt ");
  if (!parts) {
    return InvalidArgument("'" + std::string(text.substr(0, 64)) +
                           "' is not a time such as 2026-11-22T03:04:05Z");
  }
  // A leap second equals the start of the next second.
  return WallTime(chrono::sys_days(parts->date) + chrono::hours(parts->hour) +
                  chrono::minutes(parts->minute) + chrono::seconds(parts->second) +
                  chrono::microseconds(parts->micros) - parts->offset);
}

bool IsDateTime(std::string_view text) {
  const std::optional<Parts> parts = ReadParts(text, "Tt");
  return parts && parts->second <= 59;
}

std::string FormatMicroTime(WallTime time) {
  return Format(chrono::floor<chrono::microseconds>(time));
}

std::string FormatTime(WallTime time) {
  return FormatTime(chrono::floor<chrono::seconds>(time));
}

std::string FormatTime(chrono::sys_seconds time) {
  const std::string micro = Format(time);
  return micro.substr(0, micro.find('.')) + "Z";
}

}  // namespace janus::control
