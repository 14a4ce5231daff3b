#include "operator/local/store/history.h"

#include <utility>

#include "common/check.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {

void History::Append(Change change) {
  JANUS_CHECK(change.version == newest() + 1, change.version, newest());
  // Counts the state before the change. The state after it belongs to the table, or to the next
  // change.
  const size_t bytes = sizeof(Entry) + (change.before == nullptr ? 0 : BytesOf(*change.before));
  bytes_ += bytes;
  changes_.push_back({std::move(change), bytes});
  while (changes_.size() > max_changes_ || bytes_ > max_bytes_) {
    bytes_ -= changes_.front().bytes;
    changes_.pop_front();
    ++floor_;
  }
}

const Change& History::At(int64_t version) const {
  JANUS_CHECK(version > floor_ && version <= newest(), version, floor_, newest());
  return changes_[static_cast<size_t>(version - floor_ - 1)].change;
}

}  // namespace janus::control
