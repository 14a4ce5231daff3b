#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "operator/kube/object_api.h"
#include "operator/local/store/history.h"
#include "operator/local/store/selectors.h"

namespace janus::control {

// A change as a watch reports it: an object that enters the selection is added, one that leaves it
// is deleted (Kubernetes API, "Efficient detection of changes").
struct Heard {
  WatchEventType type = WatchEventType::kAdded;
  SharedObject object;
  int64_t version = 0;
};

// Nothing: the watch does not report the change. Pure.
std::optional<Heard> Hear(const Change& change, const Kind& kind, const Selector& selector);

// The event to deliver. A deleted object carries the version of its deletion.
WatchEvent ToEvent(const Heard& heard);
WatchEvent Bookmark(const Kind& kind, int64_t version);

// Times of bookmarks: once a minute, and two seconds before the end, so that the next watch resumes
// close to where this one ends. Pure.
class BookmarkTimes {
 public:
  BookmarkTimes(MonotonicTime begin, MonotonicTime end);

  bool IsDue(MonotonicTime now) const { return next_ && now >= *next_; }
  void Sent(MonotonicTime now);
  // When to check again.
  MonotonicTime Next() const { return next_.value_or(end_); }

 private:
  const MonotonicTime end_;
  const MonotonicTime last_;
  std::optional<MonotonicTime> next_;
};

}  // namespace janus::control
