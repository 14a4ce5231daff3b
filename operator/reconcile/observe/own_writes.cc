#include "operator/reconcile/observe/own_writes.h"

namespace janus::control {

void OwnWrites::Wrote(const Resource& resource, const std::string& replaced, Node written,
                      MonotonicTime now) {
  const std::string version(ResourceVersionOf(written));
  if (version == replaced) return;  // the write changed nothing
  Written& entry = written_[KeyFor(resource, KeyOf(written))];
  if (!replaced.empty() && entry.version != replaced) {
    entry = Written();  // another writer has replaced our state
  }
  entry.resource = &resource;
  entry.is_made = entry.is_made || replaced.empty();
  if (!replaced.empty()) entry.older_versions.insert(replaced);
  entry.version = version;
  entry.object = cache_of_(resource).Pack(std::move(written));
  entry.since = now;
}

void OwnWrites::Resolve(const Place& place, std::optional<Node> there, MonotonicTime now) {
  unresolved_.erase(place);
  written_.erase(KeyFor(*place.first, place.second));
  if (there) Wrote(*place.first, "", *std::move(there), now);
}

void OwnWrites::DoubtOlderThan(MonotonicTime time) {
  for (const auto& [key, entry] : written_) {
    if (entry.is_made && entry.since < time) unresolved_.emplace(entry.resource, key.second);
  }
}

Node OwnWrites::ObjectOf(const Written& entry) const {
  return cache_of_(*entry.resource).Unpack(entry.object);
}

std::optional<Node> OwnWrites::Newest(const Resource& resource, const ObjectKey& key,
                                      std::optional<Node> cached) {
  const auto found = written_.find(KeyFor(resource, key));
  if (found == written_.end()) return cached;
  const Written& entry = found->second;
  if (!cached) {
    // An object that the cache showed before, and no longer shows, is gone.
    if (entry.is_made) return ObjectOf(entry);
    written_.erase(found);
    return std::nullopt;
  }
  if (entry.older_versions.contains(std::string(ResourceVersionOf(*cached)))) {
    return ObjectOf(entry);
  }
  written_.erase(found);
  return cached;
}

std::vector<Node> OwnWrites::NewestOf(const Resource& resource, std::vector<Node> cached) {
  std::set<ObjectKey> shown;
  for (Node& object : cached) {
    const ObjectKey key = KeyOf(object);
    shown.insert(key);
    object = *Newest(resource, key, std::move(object));
  }
  for (const auto& [key, entry] : written_) {
    if (key.first == resource.ToString() && entry.is_made && !shown.contains(key.second)) {
      cached.push_back(ObjectOf(entry));
    }
  }
  return cached;
}

}  // namespace janus::control
