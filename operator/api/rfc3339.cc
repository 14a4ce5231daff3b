#include "operator/api/rfc3339.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

namespace janus::control {
namespace {

namespace chrono = std::chrono;

// Takes numbers and marks off the front of a text; once something is wrong it stays wrong.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  int Number(size_t digits) {
    int value = 0;
    const auto read =
        std::from_chars(rest_.data(), rest_.data() + std::min(digits, rest_.size()), value);
    // from_chars takes a sign, a date has none.
    ok_ = ok_ && rest_.size() >= digits && read.ptr == rest_.data() + digits && rest_[0] != '-';
    rest_.remove_prefix(std::min(digits, rest_.size()));
    return value;
  }
  void Mark(std::string_view any_of) {
    ok_ = ok_ && !rest_.empty() && any_of.find(rest_[0]) != any_of.npos;
    if (!rest_.empty()) rest_.remove_prefix(1);
  }
  bool Next(char c) const { return !rest_.empty() && rest_[0] == c; }
  // Digits after the point, as microseconds; what is finer is dropped.
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

}  // namespace

Result<WallTime> ParseTime(std::string_view text) {
  const Status bad = InvalidArgument("'" + std::string(text.substr(0, 64)) +
                                     "' is no time like 2026-11-22T03:04:05Z");
  Reader reader(text);
  const int year = reader.Number(4);
  reader.Mark("-");
  const int month = reader.Number(2);
  reader.Mark("-");
  const int day = reader.Number(2);
  reader.Mark("Tt ");
  const int hour = reader.Number(2);
  reader.Mark(":");
  const int minute = reader.Number(2);
  reader.Mark(":");
  const int second = reader.Number(2);  // 60: a leap second is the next one's beginning
  int micros = 0;
  if (reader.Next('.')) {
    reader.Mark(".");
    micros = reader.Fraction();
  }
  chrono::minutes offset{0};
  if (reader.Next('Z') || reader.Next('z')) {
    reader.Mark("Zz");
  } else {
    const int sign = reader.Next('-') ? -1 : 1;
    reader.Mark("+-");
    const int hours = reader.Number(2);
    reader.Mark(":");
    offset = sign * (chrono::hours(hours) + chrono::minutes(reader.Number(2)));
  }
  const chrono::year_month_day date{chrono::year(year), chrono::month(static_cast<unsigned>(month)),
                                    chrono::day(static_cast<unsigned>(day))};
  if (!reader.done() || !date.ok() || hour > 23 || minute > 59 || second > 60) return bad;
  return WallTime(chrono::sys_days(date) + chrono::hours(hour) + chrono::minutes(minute) +
                  chrono::seconds(second) + chrono::microseconds(micros) - offset);
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
