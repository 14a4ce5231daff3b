#include "dataplane/gateway/trace_ids.h"

#include <algorithm>

namespace janus::gateway {

namespace {

bool IsHex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) {
  return IsHex(text) && std::ranges::any_of(text, [](char c) { return c != '0'; });
}

}  // namespace

bool IsRequestId(std::string_view id) {
  constexpr size_t kMostBytes = 128;
  return !id.empty() && id.size() <= kMostBytes &&
         std::ranges::all_of(id, [](char c) { return c > ' ' && c <= '~'; });
}

bool IsTraceParent(std::string_view text) {
  constexpr size_t kBytes = 2 + 1 + 32 + 1 + 16 + 1 + 2;
  return text.size() == kBytes && text.starts_with("00-") && text[35] == '-' && text[52] == '-' &&
         IsId(text.substr(3, 32)) && IsId(text.substr(36, 16)) && IsHex(text.substr(53, 2));
}

}  // namespace janus::gateway
