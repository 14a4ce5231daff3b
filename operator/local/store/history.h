#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "operator/kube/object.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

using SharedObject = std::shared_ptr<const Node>;

// One change of one object. At most one of `before` and `after` is null.
struct Change {
  int64_t version = 0;
  const Kind* kind = nullptr;
  ObjectKey key;
  SharedObject before;  // null: it was created
  SharedObject after;   // null: it was deleted
};

// The latest changes, limited by number and by bytes. Watches resume from them, and paged lists
// continue from them.
//
// Invariants:
// (1) Every version has exactly one change, and versions have no gaps.
// (2) It contains every change after floor().
// Thread-compatible.
class History {
 public:
  // The first change gets version first_version + 1.
  History(int64_t first_version, size_t max_changes, size_t max_bytes)
      : max_changes_(max_changes), max_bytes_(max_bytes), floor_(first_version) {}

  // REQUIRES: change.version == newest() + 1
  void Append(Change change);

  int64_t floor() const { return floor_; }
  int64_t newest() const { return floor_ + static_cast<int64_t>(changes_.size()); }
  // REQUIRES: floor() < version <= newest()
  const Change& At(int64_t version) const;

 private:
  struct Entry {
    Change change;
    size_t bytes;
  };

  const size_t max_changes_;
  const size_t max_bytes_;
  int64_t floor_;
  size_t bytes_ = 0;
  std::deque<Entry> changes_;
};

}  // namespace janus::control
