#include "operator/local/store/watch_filter.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace janus::control {
namespace {

constexpr std::chrono::seconds kBetweenBookmarks{60};
constexpr std::chrono::seconds kBeforeTheEnd{2};

}  // namespace

std::optional<Heard> Hear(const Change& change, const Kind& kind, const Selector& selector) {
  if (change.kind != &kind) return std::nullopt;
  const bool was_in = change.before != nullptr && selector.Matches(*change.before);
  const bool is_in = change.after != nullptr && selector.Matches(*change.after);
  if (!was_in && !is_in) return std::nullopt;
  if (!is_in) return Heard{WatchEventType::kDeleted, change.before, change.version};
  return Heard{was_in ? WatchEventType::kModified : WatchEventType::kAdded, change.after,
               change.version};
}

WatchEvent ToEvent(const Heard& heard) {
  WatchEvent event{heard.type, *heard.object};
  if (heard.type == WatchEventType::kDeleted) {
    SetAt(event.object, {"metadata", "resourceVersion"},
          Node::String(std::to_string(heard.version)));
  }
  return event;
}

WatchEvent Bookmark(const Kind& kind, int64_t version) {
  WatchEvent event{WatchEventType::kBookmark, Node::Map()};
  event.object.Add("apiVersion", Node::String(kind.resource.ApiVersion()));
  event.object.Add("kind", Node::String(kind.resource.kind));
  SetAt(event.object, {"metadata", "resourceVersion"}, Node::String(std::to_string(version)));
  return event;
}

BookmarkTimes::BookmarkTimes(MonotonicTime begin, MonotonicTime end)
    : end_(end),
      last_(std::max(begin, end - kBeforeTheEnd)),
      next_(std::min<MonotonicTime>(begin + kBetweenBookmarks, last_)) {}

void BookmarkTimes::Sent(MonotonicTime now) {
  if (now >= last_) {
    next_.reset();
  } else {
    next_ = std::min<MonotonicTime>(now + kBetweenBookmarks, last_);
  }
}

}  // namespace janus::control
