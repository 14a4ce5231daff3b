#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "operator/kube/object.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

using SharedObject = std::shared_ptr<const Node>;

// One change of one object. Not both are null.
struct Change {
  int64_t version = 0;
  const Kind* kind = nullptr;
  ObjectKey key;
  SharedObject before;  // null: it was made
  SharedObject after;   // null: it has gone
};

// The last changes, as many as a bound on their number and one on their bytes allow: what watches
// resume from and lists go on from.
//
// Invariants:
// (1) Every version has exactly one change, and versions follow each other without a gap.
// (2) All that happened after floor() is here.
// Thread-compatible.
class History {
 public:
  // The first change is first_version + 1.
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
