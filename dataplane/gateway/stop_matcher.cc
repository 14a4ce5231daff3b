#include "dataplane/gateway/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace janus::gateway {

namespace {

// Length of the longest end of `text` that is a proper beginning of one of `stops`.
size_t PossibleBeginning(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string_view stop : stops) {
    for (size_t n = std::min(text.size(), stop.size() - 1); n > longest; --n) {
      if (text.substr(text.size() - n) == stop.substr(0, n)) longest = n;
    }
  }
  return longest;
}

}  // namespace

std::string StopMatcher::Push(std::string_view text) {
  if (matched_) return "";
  if (stops_.empty()) return std::string(text);
  std::string all = std::move(held_);
  all += text;
  // The match that ends first, and of those the longest. So cuts between pieces do not matter.
  size_t begin = 0, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t found = all.find(stop);
    if (found == std::string::npos) continue;
    const size_t found_end = found + stop.size();
    if (found_end < end || (found_end == end && found < begin)) {
      begin = found;
      end = found_end;
      match_ = stop;
    }
  }
  if (end != std::string::npos) {
    matched_ = true;
    held_.clear();
    all.resize(keep_stop_ ? end : begin);
    return all;
  }
  const size_t held = PossibleBeginning(all, stops_);
  held_ = all.substr(all.size() - held);
  all.resize(all.size() - held);
  return all;
}

std::string StopMatcher::Flush() {
  return std::exchange(held_, {});
}

}  // namespace janus::gateway
