#include "dataplane/engine/page_queue.h"

#include "common/check.h"

namespace janus::dataplane {

void PageQueue::Add(int32_t page) {
  JANUS_CHECK(!Holds(page), page);
  links_[static_cast<size_t>(page)] = {last_, -1, true};
  After(last_) = page;
  last_ = page;
  ++size_;
}

void PageQueue::Remove(int32_t page) {
  JANUS_CHECK(Holds(page), page);
  const Link link = links_[static_cast<size_t>(page)];
  After(link.before) = link.after;
  Before(link.after) = link.before;
  links_[static_cast<size_t>(page)] = {};
  --size_;
}

}  // namespace janus::dataplane
