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

// How one object of the store changed. The objects are there while the delta is delivered.
struct Delta {
  DeltaType type = DeltaType::kAdded;
  ObjectKey key;
  const Node* before = nullptr;  // null: kAdded
  const Node* after = nullptr;   // null: kDeleted
};

// By what objects are found besides their key: the values one has, none or several.
struct ObjectIndex {
  std::string name;
  std::function<std::vector<std::string>(const Node& object)> values;  // of the kept object; pure
};

struct ObjectStoreOptions {
  // What of an object is kept (field_filter.h), its key and UID at least; empty: all of it. Pure.
  std::function<Node(Node object)> transform;
  std::vector<ObjectIndex> indexes;
};

// A copy of the objects of a resource, told pages of lists and events of watches. Decides what
// changed; when to list and when to watch is the reflector's (reflector.h).
//
// Invariants:
// (1) After EndList the store holds what the pages since BeginList held, changed by the events
//     since, and no more: an object that vanished unseen is delivered as deleted.
// (2) An object deleted and created again under its name has another UID: it is delivered as
//     deleted, then as added, never as modified.
// (3) Deltas of a key follow upon each other: added, any number of modified, deleted, added, ...;
//     `before` of each is `after` of the one before.
// (4) What changes nothing that is kept is not delivered: an event that comes twice, a field the
//     transform leaves out.
// (5) resourceVersions are compared for being equal, never for being greater: they are opaque
//     (Kubernetes API concepts, "Resource versions"). An older event that comes again is therefore
//     taken, and so are those that followed it.
// (6) One list is of one scope: a namespace, or all there is (""). Each scope has a teller of its
//     own, and scopes do not overlap; (1) holds of each for itself.
//
// Memory is that of the kept objects, packed (packed_tree.h): pages are taken one by one, no delta
// is stored, and a reader gets a copy of its own. Readers: thread-safe. Told (BeginList and what
// follows) by one thread of each scope; `deliver` is called on it, without a lock held, so that it
// may read.
class ObjectStore {
 public:
  explicit ObjectStore(ObjectStoreOptions options);

  // What the store would keep of an object, for a caller that has it first; as small as the store's
  // own.
  PackedTree Pack(Node object) const;
  Node Unpack(const PackedTree& packed) const { return packed.Unpack(phrases_); }

  // Nothing: there is none.
  std::optional<Node> Get(const ObjectKey& key) const;
  // In the order of their keys.
  std::vector<Node> List() const;
  // The same one by one, so that no more than one is unpacked at a time; `visit` is called without
  // a lock held.
  void Visit(FunctionRef<void(const Node&)> visit) const;
  std::vector<ObjectKey> Keys() const;
  // Those that have `value` in the index of that name, which there is; in the order of their keys.
  std::vector<Node> Find(std::string_view index, std::string_view value) const;
  size_t size() const;

  using Deliver = FunctionRef<void(const Delta&)>;

  // A list begins, or begins anew: what was told of one that broke off stays until the next ends.
  void BeginList(const std::string& scope = "");
  void TakePage(std::vector<Node> items, Deliver deliver);
  // That was all of the scope. REQUIRES: BeginList before.
  void EndList(Deliver deliver, const std::string& scope = "");

  enum class Verdict {
    kTaken,
    kNothingNew,  // (4), or an object is deleted that was not there
    kListAgain,   // it contradicts what is here: events must have been lost. Nothing was changed.
  };
  // Bookmarks change nothing.
  Verdict TakeEvent(WatchEvent event, Deliver deliver);

 private:
  struct Entry {
    PackedTree object;
    uint64_t list = 0;  // the last one that held it, or during which an event did
  };
  struct ByKey {
    bool operator()(const ObjectKey* a, const ObjectKey* b) const { return *a < *b; }
  };
  // Keys are those of entries_, whose places do not move.
  using IndexMap = std::map<std::string, std::set<const ObjectKey*, ByKey>, std::less<>>;

  Node Kept(Node object) const {
    return options_.transform ? options_.transform(std::move(object)) : object;
  }
  bool Put(Node object, Deliver deliver);
  void Remove(const ObjectKey& key, Deliver deliver);
  std::vector<PackedTree> All() const;
  std::vector<Node> UnpackAll(const std::vector<PackedTree>& objects) const;
  // The number of the list that the object is, or would be, told in.
  uint64_t ListOf(const ObjectKey& key) const JANUS_REQUIRES(mu_);
  void AddToIndexes(const ObjectKey& key, const Node& object) JANUS_REQUIRES(mu_);
  void RemoveFromIndexes(const ObjectKey& key, const Node& object) JANUS_REQUIRES(mu_);

  const ObjectStoreOptions options_;
  mutable Mutex mu_;
  Phrases
      phrases_;  // changed, and packed by, under mu_; reading what objects refer to needs no lock
  std::map<ObjectKey, Entry> entries_ JANUS_GUARDED_BY(mu_);
  std::vector<IndexMap> index_maps_ JANUS_GUARDED_BY(mu_);  // as options_.indexes
  uint64_t last_list_ JANUS_GUARDED_BY(mu_) = 0;
  // By scope: the list that runs, or ran.
  std::map<std::string, uint64_t> lists_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
