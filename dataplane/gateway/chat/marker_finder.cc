#include "dataplane/gateway/chat/marker_finder.h"

#include <algorithm>
#include <utility>

namespace janus::gateway {

MarkerFinder::Found MarkerFinder::Push(std::string_view text) {
  waiting_ += text;
  size_t at = std::string::npos;
  Found found;
  for (size_t i = 0; i < markers_.size(); ++i) {
    const size_t here = waiting_.find(markers_[i]);
    if (here < at) {
      at = here;
      found.marker = static_cast<int>(i);
    }
  }
  if (found.marker >= 0) {
    found.before = waiting_.substr(0, at);
    waiting_.erase(0, at + markers_[static_cast<size_t>(found.marker)].size());
    return found;
  }
  size_t held = 0;
  for (const std::string& marker : markers_) {
    for (size_t n = std::min(waiting_.size(), marker.size() - 1); n > held; --n) {
      if (std::string_view(waiting_).substr(waiting_.size() - n) == marker.substr(0, n)) held = n;
    }
  }
  found.before = waiting_.substr(0, waiting_.size() - held);
  waiting_.erase(0, waiting_.size() - held);
  return found;
}

std::string MarkerFinder::Flush() {
  return std::exchange(waiting_, {});
}

}  // namespace janus::gateway
