#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/local/store/history.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// Values are never null; their fields are sorted and complete.
using Table = std::map<ObjectKey, SharedObject>;

struct TableLimits {
  size_t max_changes = 16'384;          // of the history
  size_t max_history_bytes = 16 << 20;  // minutes of a service that is scaled all the time
  size_t max_bytes = 512 << 20;         // of all objects
};

// All objects, their versions and latest changes. Every write creates one version. Older versions
// can be read as far back as the history goes.
//
// Invariants:
// (1) metadata.resourceVersion of an object is the version of its last change.
// (2) DependentsOf(uid) is exactly the objects with an owner reference to that uid.
// Memory: max_bytes, max_history_bytes and the two indices. Thread-compatible.
class Tables {
 public:
  // Versions below the first count as compacted, as in etcd.
  static constexpr int64_t kFirstVersion = 1000;

  explicit Tables(const TableLimits& limits);

  using Place = std::pair<const Kind*, ObjectKey>;

  int64_t version() const { return history_.newest(); }
  const History& history() const { return history_; }
  size_t bytes() const { return bytes_; }
  // True if this many more bytes fit.
  bool HasRoom(size_t bytes) const { return bytes_ + bytes <= limits_.max_bytes; }

  // Null: no such object.
  SharedObject Find(const Kind& kind, const ObjectKey& key) const;
  SharedObject Find(const Place& place) const { return Find(*place.first, place.second); }
  // Valid until the next Put or Remove.
  const Table& TableOf(const Kind& kind) const;
  std::vector<Place> DependentsOf(const std::string& uid) const;

  // Stores the object under a new version, which it writes into the object it returns.
  SharedObject Put(const Kind& kind, const ObjectKey& key, Node object);
  // Returns its last state, with the version of the removal. REQUIRES: it exists.
  SharedObject Remove(const Kind& kind, const ObjectKey& key);

  // The objects of a kind at a version. REQUIRES: history().floor() <= version <= version()
  Table SnapshotAt(const Kind& kind, int64_t version) const;

 private:
  void Index(const Place& place, const Node* before, const Node* after);

  const TableLimits limits_;
  History history_;
  size_t bytes_ = 0;
  std::map<const Kind*, Table> tables_;
  std::map<std::string, std::set<Place>> dependents_;  // by the owner's uid
};

}  // namespace janus::control
