#include "operator/api/validate_read.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace janus::control {
namespace {

bool IsAtOrBelow(std::string_view path, std::string_view other) {
  if (other.empty()) return true;
  if (!path.starts_with(other)) return false;
  path.remove_prefix(other.size());
  return path.empty() || path.front() == '.' || path.front() == '[';
}

}  // namespace

FieldErrors WithBounds(const Node& root, FieldErrors read, FieldErrors bounds) {
  std::erase_if(bounds, [&](const FieldError& bound) {
    return std::any_of(read.begin(), read.end(), [&](const FieldError& error) {
      return IsAtOrBelow(bound.path, error.path);
    });
  });
  AddLines(root, bounds);
  read.insert(read.end(), bounds.begin(), bounds.end());
  std::stable_sort(read.begin(), read.end(),
                   [](const FieldError& a, const FieldError& b) { return a.line < b.line; });
  return read;
}

}  // namespace janus::control
