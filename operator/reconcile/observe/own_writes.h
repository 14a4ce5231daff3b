#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/kube/object.h"
#include "operator/kube/object_store.h"
#include "operator/kube/packed_tree.h"
#include "operator/kube/resource.h"

namespace janus::control {

// This process's writes to a service's objects that its caches do not show yet. Reads through this
// class are never older than our last write, so that a pass right after another creates nothing
// twice.
//
// If a cache shows a version that we have overwritten, it lags, and our copy is newer. Any other
// version is ours or another writer's, and the cache is used. Versions are compared only for
// equality. Confined.
class OwnWrites {
 public:
  // The caches, which outlive this. Of an object it remembers what they would keep.
  using CacheOf = std::function<const ObjectStore&(const Resource& resource)>;
  explicit OwnWrites(CacheOf cache_of) : cache_of_(std::move(cache_of)) {}

  // `replaced`: the version that it overwrote; empty: it was created.
  void Wrote(const Resource& resource, const std::string& replaced, Node written,
             MonotonicTime now);
  // The deletion of the object of that uid was requested; it counts as being deleted.
  void Deleted(const std::string& uid) { deleted_.insert(uid); }
  bool IsDeleted(const std::string& uid) const { return deleted_.contains(uid); }
  // Forgets uids that are not in `there`, since those objects are gone.
  void ForgetDeleted(const std::set<std::string>& there) {
    std::erase_if(deleted_, [&](const std::string& uid) { return !there.contains(uid); });
  }

  // A create has an unknown outcome: ask the server before the next decision.
  using Place = std::pair<const Resource*, ObjectKey>;
  void MayHaveMade(const Resource& resource, ObjectKey key) {
    unresolved_.emplace(&resource, std::move(key));
  }
  const std::set<Place>& unresolved() const { return unresolved_; }
  // The server's answer. `there`: the object, or nothing.
  void Resolve(const Place& place, std::optional<Node> there, MonotonicTime now);
  // Objects created before `time` that no cache shows may be gone again: ask the server.
  void DoubtOlderThan(MonotonicTime time);

  // The newest known state: the cache's copy, or ours. Nothing: no such object.
  std::optional<Node> Newest(const Resource& resource, const ObjectKey& key,
                             std::optional<Node> cached);
  // The same for a list by any index: adds objects that we created and the cache lacks.
  std::vector<Node> NewestOf(const Resource& resource, std::vector<Node> cached);

 private:
  struct Written {
    const Resource* resource = nullptr;
    PackedTree object;
    std::string version;
    std::set<std::string> older_versions;  // since the cache was last up to date
    bool is_made = false;                  // created, and not yet in the cache
    MonotonicTime since;
  };
  using Key = std::pair<std::string, ObjectKey>;  // resource's text

  static Key KeyFor(const Resource& resource, const ObjectKey& key) {
    return {resource.ToString(), key};
  }

  Node ObjectOf(const Written& entry) const;

  const CacheOf cache_of_;
  std::map<Key, Written> written_;
  std::set<std::string> deleted_;  // uids
  std::set<Place> unresolved_;
};

}  // namespace janus::control
