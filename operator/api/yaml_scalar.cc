#include "operator/api/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>

namespace janus::control {
namespace {

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view WithoutSign(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  return text;
}

bool LooksInteger(std::string_view text) {
  return IsDigits(WithoutSign(text));
}

// .inf, -.Inf, .NAN: not numbers in JSON.
bool LooksEndless(std::string_view text) {
  static constexpr std::string_view kForms[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
  return std::find(std::begin(kForms), std::end(kForms), WithoutSign(text)) != std::end(kForms);
}

bool LooksFloat(std::string_view text) {
  text = WithoutSign(text);
  const size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    if (!IsDigits(WithoutSign(text.substr(exponent + 1)))) return false;
    text = text.substr(0, exponent);
  }
  const size_t point = text.find('.');
  if (point == std::string_view::npos) return exponent != std::string_view::npos && IsDigits(text);
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = text.substr(point + 1);
  return (IsDigits(whole) || whole.empty()) && (IsDigits(part) || part.empty()) &&
         !(whole.empty() && part.empty());
}

std::optional<bool> BooleanOf(std::string_view text) {
  static constexpr std::string_view kTrue[] = {"y",  "Y",  "yes",  "Yes",  "YES", "on",
                                               "On", "ON", "true", "True", "TRUE"};
  static constexpr std::string_view kFalse[] = {"n",   "N",   "no",    "No",    "NO",   "off",
                                                "Off", "OFF", "false", "False", "FALSE"};
  if (std::find(std::begin(kTrue), std::end(kTrue), text) != std::end(kTrue)) return true;
  if (std::find(std::begin(kFalse), std::end(kFalse), text) != std::end(kFalse)) return false;
  return std::nullopt;
}

// The digits of a number and their base.
struct Digits {
  std::string text;
  int base = 10;
};

// Parses an unsigned integer like Go's strconv with base 0: 012 and 0o12 octal, 0x, 0b.
Digits DigitsOf(std::string_view number) {
  if (number.size() < 2 || number[0] != '0') return {std::string(number), 10};
  const std::string rest(number.substr(2));
  switch (number[1]) {
    case 'b':
    case 'B':
      return {rest, 2};
    case 'o':
    case 'O':
      return {rest, 8};
    case 'x':
    case 'X':
      return {rest, 16};
    default:
      return {std::string(number.substr(1)), 8};
  }
}

enum class NumberKind { kNone, kInteger, kTooLarge, kFloat };

// `out` is set for an integer.
NumberKind ReadNumber(std::string_view text, int64_t& out) {
  const bool begins_as_one = !WithoutSign(text).empty() && WithoutSign(text).front() >= '0' &&
                             WithoutSign(text).front() <= '9';
  if (!begins_as_one) return LooksFloat(text) ? NumberKind::kFloat : NumberKind::kNone;
  std::string plain;
  std::copy_if(text.begin(), text.end(), std::back_inserter(plain),
               [](char c) { return c != '_'; });
  Digits digits = DigitsOf(WithoutSign(plain));
  if (digits.text.starts_with('-')) return NumberKind::kNone;  // 0-1
  if (plain.front() == '-') digits.text.insert(0, 1, '-');
  const char* const end = digits.text.data() + digits.text.size();
  const auto [stop, error] = std::from_chars(digits.text.data(), end, out, digits.base);
  if (stop == end && error == std::errc()) return NumberKind::kInteger;
  if (stop == end && error == std::errc::result_out_of_range) return NumberKind::kTooLarge;
  // 089 is not an octal number but a float with an integral value.
  const bool is_float = LooksFloat(plain) || LooksInteger(plain);
  return is_float ? NumberKind::kFloat : NumberKind::kNone;
}

// An integral float becomes an integer on its way to the API server.
Node FloatNode(std::string_view text) {
  constexpr double kMostExact = (int64_t{1} << 53) - 1;
  Node out = Node::String(text);
  std::erase(out.text, '_');
  out.kind = Node::Kind::kFloat;
  const double value = std::strtod(out.text.c_str(), nullptr);
  const bool is_whole = std::abs(value) <= kMostExact && value == std::trunc(value);
  return is_whole ? Node::Integer(static_cast<int64_t>(value)) : out;
}

bool IsNull(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

}  // namespace

Result<Node> ReadPlain(std::string_view text) {
  if (const std::optional<bool> boolean = BooleanOf(text)) return Node::Bool(*boolean);
  const std::string shown(text.substr(0, 40));
  if (LooksEndless(text)) {
    return InvalidArgument(shown + " is not a JSON number; put it in quotes if it is text");
  }
  if (text == "<<") return InvalidArgument("fields are not merged here (<<); write them out");
  int64_t value = 0;
  switch (ReadNumber(text, value)) {
    case NumberKind::kInteger:
      return Node::Integer(value);
    case NumberKind::kTooLarge:
      return InvalidArgument("the integer " + shown + " does not fit 64 bits");
    case NumberKind::kFloat:
      return FloatNode(text);
    case NumberKind::kNone:
      break;
  }
  return Node::String(text);
}

bool NeedsQuotes(std::string_view text) {
  // A reader takes a carriage return in a plain string as a line break.
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (IsNull(text) || std::any_of(text.begin(), text.end(), is_control)) return true;
  const Result<Node> read = ReadPlain(text);
  return !read.ok() || read->kind != Node::Kind::kString;
}

}  // namespace janus::control
