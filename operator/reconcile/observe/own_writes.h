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

// What this process has written of a service's objects and its caches do not show yet. Read through
// it a cache is never older than our own last write, so that a pass which follows closely on
// another makes nothing twice.
//
// A cache that shows a version we have overwritten lags: our copy is the newer one. Any other
// version is of another writer, or ours, and the cache is believed. Versions are only compared for
// equality. Confined.
class OwnWrites {
 public:
  // The caches, which outlive this: what they would keep of an object is remembered.
  using CacheOf = std::function<const ObjectStore&(const Resource& resource)>;
  explicit OwnWrites(CacheOf cache_of) : cache_of_(std::move(cache_of)) {}

  // `replaced`: the version it was written over; empty: it was made.
  void Wrote(const Resource& resource, const std::string& replaced, Node written,
             MonotonicTime now);
  // An object of that uid is asked to go, and shall count as going.
  void Deleted(const std::string& uid) { deleted_.insert(uid); }
  bool IsDeleted(const std::string& uid) const { return deleted_.contains(uid); }
  // Those not among `there` have gone.
  void ForgetDeleted(const std::set<std::string>& there) {
    std::erase_if(deleted_, [&](const std::string& uid) { return !there.contains(uid); });
  }

  // The outcome of this create is unknown: the server is asked before anything is decided.
  using Place = std::pair<const Resource*, ObjectKey>;
  void MayHaveMade(const Resource& resource, ObjectKey key) {
    unresolved_.emplace(&resource, std::move(key));
  }
  const std::set<Place>& unresolved() const { return unresolved_; }
  // The server was asked. `there`: nothing, or the object.
  void Resolve(const Place& place, std::optional<Node> there, MonotonicTime now);
  // Made longer ago than a cache may lag, and not shown yet: they may have gone since. Ask.
  void DoubtOlderThan(MonotonicTime time);

  // The object as it is known: the cache's copy, or ours. Nothing: there is none.
  std::optional<Node> Newest(const Resource& resource, const ObjectKey& key,
                             std::optional<Node> cached);
  // The same of a list by any index: what we made and the cache lacks is added.
  std::vector<Node> NewestOf(const Resource& resource, std::vector<Node> cached);

 private:
  struct Written {
    const Resource* resource = nullptr;
    PackedTree object;
    std::string version;
    std::set<std::string> overwritten;  // versions since the cache was last believed
    bool is_made = false;               // the cache has not shown any version of it yet
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
