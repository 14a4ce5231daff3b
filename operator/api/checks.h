#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/rfc3339.h"
#include "operator/api/tree.h"

namespace janus::control {

// Basic checks for validators. Each reports the path, the problem and the bound.
class Checks {
 public:
  explicit Checks(Scope scope = Scope::kAll) : scope_(scope) {}

  FieldErrors TakeErrors() { return std::move(errors_); }
  size_t error_count() const { return errors_.size(); }

  void Fail(std::string_view path, std::string message) {
    errors_.push_back({std::string(path), std::move(message), 0});
  }
  // For a rule over several fields.
  void FailRule(std::string_view path, std::string message) {
    if (scope_ == Scope::kAll) Fail(path, std::move(message));
  }
  void Range(std::string_view path, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    Fail(path, "is " + std::to_string(value) + "; want " + std::to_string(low) + ".." +
                   std::to_string(high));
  }
  void Range(std::string_view path, const std::optional<int32_t>& value, int64_t low,
             int64_t high) {
    if (value) Range(path, *value, low, high);
  }
  void OneOf(std::string_view path, int32_t value, std::initializer_list<int32_t> allowed) {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string list;
    for (const int32_t one : allowed) list += (list.empty() ? "" : ", ") + std::to_string(one);
    Fail(path, "is " + std::to_string(value) + "; want one of " + list);
  }
  // Counts code points, as the API server does.
  void Length(std::string_view path, const std::string& text, size_t most) {
    const auto length = static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    if (length <= most) return;
    Fail(path,
         "has " + std::to_string(length) + " characters; want at most " + std::to_string(most));
  }
  // An empty text counts as not given.
  void Time(std::string_view path, const std::string& text) {
    if (text.empty() || IsDateTime(text)) return;
    Fail(path, "is \"" + text + "\"; want a date and time, such as 2026-11-22T03:04:05Z");
  }
  static std::string Item(const std::string& path, size_t index) {
    return path + "[" + std::to_string(index) + "]";
  }
  void Count(std::string_view path, size_t count, size_t most) {
    if (count <= most) return;
    Fail(path, "has " + std::to_string(count) + " entries; want at most " + std::to_string(most));
  }
  void Filled(std::string_view path, const std::string& text, size_t most) {
    if (text.empty()) Fail(path, "is empty");
    Length(path, text, most);
  }

  // An RFC 1035 label, because it becomes part of Services' names. The limit of 40 leaves room for
  // "-attention-<revision>-<id>" within a label's 63 characters.
  void Name(std::string_view path, const std::string& name) {
    const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto is_inner = [&](char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '-'; };
    const bool well_formed = !name.empty() && is_lower(name.front()) && name.back() != '-' &&
                             std::all_of(name.begin(), name.end(), is_inner);
    if (!well_formed) {
      Fail(path, "is '" + name.substr(0, 64) +
                     "'; want small letters, digits and '-', beginning with a letter and not "
                     "ending with '-'");
    }
    Length(path, name, 40);
  }

 private:
  Scope scope_;
  FieldErrors errors_;
};

}  // namespace janus::control
