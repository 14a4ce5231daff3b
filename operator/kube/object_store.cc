#include "operator/kube/object_store.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace janus::control {

ObjectStore::ObjectStore(ObjectStoreOptions options)
    : options_(std::move(options)), index_maps_(options_.indexes.size()) {}

ObjectPtr ObjectStore::Get(const ObjectKey& key) const {
  const MutexLock lock(mu_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.object;
}

std::vector<ObjectPtr> ObjectStore::List() const {
  const MutexLock lock(mu_);
  std::vector<ObjectPtr> out;
  out.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) out.push_back(entry.object);
  return out;
}

std::vector<ObjectKey> ObjectStore::Keys() const {
  const MutexLock lock(mu_);
  std::vector<ObjectKey> out;
  out.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) out.push_back(key);
  return out;
}

std::vector<ObjectPtr> ObjectStore::Find(std::string_view index, std::string_view value) const {
  const auto named =
      std::find_if(options_.indexes.begin(), options_.indexes.end(),
                   [&](const ObjectIndex& candidate) { return candidate.name == index; });
  JANUS_CHECK(named != options_.indexes.end(), index, "is no index");
  const auto number = static_cast<size_t>(named - options_.indexes.begin());
  const MutexLock lock(mu_);
  const auto found = index_maps_[number].find(value);
  std::vector<ObjectPtr> out;
  if (found == index_maps_[number].end()) return out;
  out.reserve(found->second.size());
  for (const ObjectKey* const key : found->second)
    out.push_back(entries_.find(*key)->second.object);
  return out;
}

size_t ObjectStore::size() const {
  const MutexLock lock(mu_);
  return entries_.size();
}

void ObjectStore::AddToIndexes(const ObjectKey& key, const Node& object) {
  for (size_t i = 0; i < index_maps_.size(); ++i) {
    for (std::string& value : options_.indexes[i].values(object)) {
      index_maps_[i][std::move(value)].insert(&key);
    }
  }
}

void ObjectStore::RemoveFromIndexes(const ObjectKey& key, const Node& object) {
  for (size_t i = 0; i < index_maps_.size(); ++i) {
    for (const std::string& value : options_.indexes[i].values(object)) {
      const auto found = index_maps_[i].find(value);
      if (found == index_maps_[i].end()) continue;  // a value named twice
      found->second.erase(&key);
      if (found->second.empty()) index_maps_[i].erase(found);
    }
  }
}

// Deletes the object, which is there; readers see it gone before `deliver` is told.
void ObjectStore::Remove(const ObjectKey& key, Deliver deliver) {
  Delta delta{DeltaType::kDeleted, key, nullptr, nullptr};
  {
    const MutexLock lock(mu_);
    const auto found = entries_.find(key);
    JANUS_CHECK(found != entries_.end(), key.ToString());
    RemoveFromIndexes(found->first, *found->second.object);
    delta.before = std::move(found->second.object);
    entries_.erase(found);
  }
  deliver(delta);
}

// The object as it is now. False: nothing that is kept has changed.
bool ObjectStore::Put(Node object, Deliver deliver) {
  Delta delta{DeltaType::kAdded, KeyOf(object), nullptr, nullptr};
  std::string uid(UidOf(object));
  std::string version(ResourceVersionOf(object));
  bool is_another = false;
  {
    const MutexLock lock(mu_);
    const auto found = entries_.find(delta.key);
    if (found != entries_.end()) {
      is_another = found->second.uid != uid;
      if (!is_another) {
        found->second.list = list_;
        if (found->second.resource_version == version && !version.empty()) return false;
      }
    }
  }
  if (is_another) Remove(delta.key, deliver);  // (2)
  // The transform and the comparison need no lock: only this thread changes entries.
  delta.after = std::make_shared<const Node>(
      options_.transform ? options_.transform(std::move(object)) : std::move(object));
  {
    const MutexLock lock(mu_);
    const auto [at, is_new] = entries_.try_emplace(delta.key);
    Entry& entry = at->second;
    entry.list = list_;
    entry.resource_version = std::move(version);
    if (is_new) {
      entry.uid = std::move(uid);
    } else {
      if (*entry.object == *delta.after) return false;  // (4)
      delta.type = DeltaType::kModified;
      RemoveFromIndexes(at->first, *entry.object);
      delta.before = std::move(entry.object);
    }
    entry.object = delta.after;
    AddToIndexes(at->first, *entry.object);
  }
  deliver(delta);
  return true;
}

void ObjectStore::BeginList() {
  ++list_;
}

void ObjectStore::TakePage(std::vector<Node> items, Deliver deliver) {
  JANUS_CHECK(list_ > 0, "BeginList comes first");
  for (Node& item : items) Put(std::move(item), deliver);
}

void ObjectStore::EndList(Deliver deliver) {
  JANUS_CHECK(list_ > 0, "BeginList comes first");
  std::vector<ObjectKey> vanished;
  {
    const MutexLock lock(mu_);
    for (const auto& [key, entry] : entries_) {
      if (entry.list != list_) vanished.push_back(key);
    }
  }
  for (const ObjectKey& key : vanished) Remove(key, deliver);
}

ObjectStore::Verdict ObjectStore::TakeEvent(WatchEvent event, Deliver deliver) {
  if (event.type == WatchEventType::kBookmark) return Verdict::kNothingNew;
  if (event.type != WatchEventType::kDeleted) {
    return Put(std::move(event.object), deliver) ? Verdict::kTaken : Verdict::kNothingNew;
  }
  const ObjectKey key = KeyOf(event.object);
  {
    const MutexLock lock(mu_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return Verdict::kNothingNew;
    // Which of the two is the older one nobody can tell by their versions (5).
    if (found->second.uid != UidOf(event.object)) return Verdict::kListAgain;
  }
  Remove(key, deliver);
  return Verdict::kTaken;
}

}  // namespace janus::control
