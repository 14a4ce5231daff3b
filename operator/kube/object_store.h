#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/function_ref.h"
#include "common/mutex.h"
#include "operator/api/tree.h"
#include "operator/kube/object.h"
#include "operator/kube/object_api.h"
#include "operator/kube/packed_tree.h"

namespace janus::control {

enum class DeltaType { kAdded, kModified, kDeleted };

// How one object of the store changed. The pointers are valid while the delta is delivered.
struct Delta {
  DeltaType type = DeltaType::kAdded;
  ObjectKey key;
  const Node* before = nullptr;  // null: kAdded
  const Node* after = nullptr;   // null: kDeleted
};

// An index to find objects by values other than the key; an object may have several values or none.
struct ObjectIndex {
  std::string name;
  std::function<std::vector<std::string>(const Node& object)> values;  // of the kept object; pure
};

struct ObjectStoreOptions {
  // Returns the part of an object to keep (field_filter.h), including its key and UID; empty: all.
  // Pure.
  std::function<Node(Node object)> transform;
  std::vector<ObjectIndex> indexes;
};

// A copy of a resource's objects, filled from pages of lists and events of watches. The store
// decides what changed; the reflector decides when to list and when to watch (reflector.h).
//
// Invariants:
// (1) After EndList the store holds exactly the pages since BeginList, changed by the events since.
//     An object that vanished unseen is delivered as deleted.
// (2) An object deleted and created again under its name has another UID. It is delivered as
//     deleted, then as added, never as modified.
// (3) The deltas of a key form a sequence: added, any number of modified, deleted, added, ...;
//     `before` of each is `after` of the previous one.
// (4) A change to nothing that is kept is not delivered, such as a repeated event or a change to a
//     field that the transform drops.
// (5) resourceVersions are compared only for equality, because they are opaque (Kubernetes API
//     concepts, "Resource versions"). So an older event that is sent again is applied, and so are
//     the events that followed it.
// (6) A list covers one scope: a namespace, or everything (""). Each scope has its own writer, and
//     scopes do not overlap. (1) holds for each scope separately.
//
// Memory: the kept objects, packed (packed_tree.h). Pages are taken one object at a time, deltas
// are not stored, and a reader gets a copy. Readers: thread-safe. Each scope has one writer thread,
// which calls BeginList and the functions after it; `deliver` runs on it without a lock, so it may
// read.
class ObjectStore {
 public:
  explicit ObjectStore(ObjectStoreOptions options);

  // Packs what the store would keep of an object, for a caller that holds the object before the
  // store does.
  PackedTree Pack(Node object) const;
  Node Unpack(const PackedTree& packed) const { return packed.Unpack(phrases_); }

  // Nothing: no such object.
  std::optional<Node> Get(const ObjectKey& key) const;
  // Sorted by key.
  std::vector<Node> List() const;
  // Visits the same objects with only one unpacked at a time; `visit` is called without a lock.
  void Visit(FunctionRef<void(const Node&)> visit) const;
  std::vector<ObjectKey> Keys() const;
  // Objects with `value` in the index of that name, sorted by key. REQUIRES: the index exists.
  std::vector<Node> Find(std::string_view index, std::string_view value) const;
  size_t size() const;

  using Deliver = FunctionRef<void(const Delta&)>;

  // Starts a list, or restarts it. Objects from a list that broke off stay until the next list
  // ends.
  void BeginList(const std::string& scope = "");
  void TakePage(std::vector<Node> items, Deliver deliver);
  // The list of the scope is complete. REQUIRES: BeginList before.
  void EndList(Deliver deliver, const std::string& scope = "");

  enum class Verdict {
    kTaken,
    kNothingNew,  // (4), or the deleted object was not in the store
    kListAgain,   // the event contradicts the store, so events were lost; nothing was changed
  };
  // Bookmarks change nothing.
  Verdict TakeEvent(WatchEvent event, Deliver deliver);

 private:
  struct Entry {
    PackedTree object;
    uint64_t list = 0;  // the last list that contained it, or got an event of it
  };
  struct ByKey {
    bool operator()(const ObjectKey* a, const ObjectKey* b) const { return *a < *b; }
  };
  // The keys point into entries_; nodes of a std::map do not move.
  using IndexMap = std::map<std::string, std::set<const ObjectKey*, ByKey>, std::less<>>;

  Node Kept(Node object) const {
    return options_.transform ? options_.transform(std::move(object)) : object;
  }
  bool Put(Node object, Deliver deliver);
  void Remove(const ObjectKey& key, Deliver deliver);
  std::vector<PackedTree> All() const;
  std::vector<Node> UnpackAll(const std::vector<PackedTree>& objects) const;
  // The number of the list that covers this object.
  uint64_t ListOf(const ObjectKey& key) const JANUS_REQUIRES(mu_);
  void AddToIndexes(const ObjectKey& key, const Node& object) JANUS_REQUIRES(mu_);
  void RemoveFromIndexes(const ObjectKey& key, const Node& object) JANUS_REQUIRES(mu_);

  const ObjectStoreOptions options_;
  mutable Mutex mu_;
  Phrases phrases_;  // appended and used for packing under mu_; Unpack needs no lock
  std::map<ObjectKey, Entry> entries_ JANUS_GUARDED_BY(mu_);
  std::vector<IndexMap> index_maps_ JANUS_GUARDED_BY(mu_);  // as options_.indexes
  uint64_t last_list_ JANUS_GUARDED_BY(mu_) = 0;
  // Number of the current or last list, by scope.
  std::map<std::string, uint64_t> lists_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
