#pragma once

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/status.h"

namespace janus::controllers {

// A value as one line of "name=value" fields, in a fixed order. A function visits every field of
// the value once; with a FieldWriter it writes the line, with a FieldReader it reads the same line
// back. Numbers have all their digits. Values are small; both are confined to one thread.

// The inverse of each other. Nothing: not such a word.
std::string EscapeWord(std::string_view text);
std::optional<std::string> UnescapeWord(std::string_view word);

class FieldWriter {
 public:
  template <class T>
  void Number(const char* name, const T& value) {
    char text[96];
    std::snprintf(text, sizeof(text), "%s%s=%.17g", line_.empty() ? "" : " ", name,
                  static_cast<double>(value));
    line_ += text;
  }
  // Letters, digits and a few signs stand for themselves, any other byte as %XX.
  void Text(const char* name, const std::string& value) {
    line_ += (line_.empty() ? "" : " ") + std::string(name) + "=" + EscapeWord(value);
  }
  template <class T, class F>
  void List(const char* name, const std::vector<T>& values, const F& each) {
    Number(name, values.size());
    for (const T& value : values) each(value);
  }
  template <class T, class F>
  void Maybe(const char* name, const std::optional<T>& value, const F& each) {
    Number(name, value.has_value());
    if (value) each(*value);
  }
  template <class F>
  void Later(const F& fields) {
    fields();
  }
  std::string Take() { return std::move(line_); }

 private:
  std::string line_;
};

class FieldReader {
 public:
  // `what` is named in errors.
  FieldReader(std::string_view line, std::string what) : rest_(line), what_(std::move(what)) {}

  template <class T>
  void Number(const char* name, T& value) {
    const double read = Next(name);
    if constexpr (std::is_enum_v<T>) {
      if (read < 0 || read > 2) return Fail(name, "one of the known values");
      value = static_cast<T>(static_cast<int>(read));
    } else if constexpr (std::is_floating_point_v<T>) {
      value = read;
    } else {
      if (!(std::abs(read) <= 1e9)) return Fail(name, "a whole number");
      value = static_cast<T>(read);
    }
  }
  void Text(const char* name, std::string& value) {
    const std::string_view word = NextWord(name);
    std::optional<std::string> read = UnescapeWord(word);
    if (!read) return Fail(name, "a word in which other bytes are written as %XX");
    value = *std::move(read);
  }
  template <class T, class F>
  void List(const char* name, std::vector<T>& values, const F& each) {
    const double count = Next(name);
    if (!(count >= 0 && count <= 4096)) return Fail(name, "a count of at most 4096");
    values.resize(static_cast<size_t>(count));
    for (T& value : values) each(value);
  }
  template <class T, class F>
  void Maybe(const char* name, std::optional<T>& value, const F& each) {
    if (Next(name) == 0) return;
    if (!value) value.emplace();  // its other fields may follow later in the line
    each(*value);
  }
  template <class F>
  void Later(const F& fields) {
    if (rest_.find_first_not_of(" \r\n") != std::string_view::npos) fields();
  }
  Status Finish() {
    if (status_.ok() && rest_.find_first_not_of(" \r\n") != std::string_view::npos) {
      return InvalidArgument(what_ + ": the line goes on after its last field: '" +
                             std::string(rest_.substr(0, 40)) + "'");
    }
    return status_;
  }

 private:
  // The text after "name=".
  std::string_view NextWord(std::string_view name) {
    if (!status_.ok()) return {};
    const size_t begin = rest_.find_first_not_of(' ');
    rest_ = begin == std::string_view::npos ? "" : rest_.substr(begin);
    const std::string_view token = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(token.size());
    const std::string want = std::string(name) + "=";
    if (token.starts_with(want)) return token.substr(want.size());
    status_ = InvalidArgument(what_ + ": wanted " + want + ", found '" +
                              std::string(token.substr(0, 60)) + "'");
    return {};
  }
  double Next(std::string_view name) {
    const std::string_view number = NextWord(name);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (status_.ok() &&
        (number.empty() || error != std::errc() || end != number.data() + number.size())) {
      status_ = InvalidArgument(what_ + ": wanted " + std::string(name) + "=<number>, found '" +
                                std::string(number.substr(0, 60)) + "'");
    }
    return value;
  }
  void Fail(const char* name, const char* want) {
    if (status_.ok()) {
      status_ = InvalidArgument(what_ + ": " + name + ": want " + want);
    }
  }

  std::string_view rest_;
  const std::string what_;
  Status status_;
};

}  // namespace janus::controllers
