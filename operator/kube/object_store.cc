#include "operator/kube/object_store.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace janus::control {

ObjectStore::ObjectStore(ObjectStoreOptions options)
    : options_(std::move(options)), index_maps_(options_.indexes.size()) {}

std::vector<Node> ObjectStore::UnpackAll(const std::vector<PackedTree>& objects) const {
  std::vector<Node> out;
  out.reserve(objects.size());
  for (const PackedTree& object : objects) out.push_back(object.Unpack(phrases_));
  return out;
}

std::optional<Node> ObjectStore::Get(const ObjectKey& key) const {
  PackedTree object;
  {
    const MutexLock lock(mu_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    object = found->second.object;
  }
  return object.Unpack(phrases_);
}

std::vector<PackedTree> ObjectStore::All() const {
  const MutexLock lock(mu_);
  std::vector<PackedTree> out;
  out.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) out.push_back(entry.object);
  return out;
}

std::vector<Node> ObjectStore::List() const {
  return UnpackAll(All());
}

void ObjectStore::Visit(FunctionRef<void(const Node&)> visit) const {
  for (const PackedTree& object : All()) visit(object.Unpack(phrases_));
}

std::vector<ObjectKey> ObjectStore::Keys() const {
  const MutexLock lock(mu_);
  std::vector<ObjectKey> out;
  out.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) out.push_back(key);
  return out;
}

std::vector<Node> ObjectStore::Find(std::string_view index, std::string_view value) const {
  const auto named =
      std::find_if(options_.indexes.begin(), options_.indexes.end(),
                   [&](const ObjectIndex& candidate) { return candidate.name == index; });
  JANUS_CHECK(named != options_.indexes.end(), index, "is no index");
  const auto number = static_cast<size_t>(named - options_.indexes.begin());
  std::vector<PackedTree> objects;
  {
    const MutexLock lock(mu_);
    const auto found = index_maps_[number].find(value);
    if (found == index_maps_[number].end()) return {};
    objects.reserve(found->second.size());
    for (const ObjectKey* const key : found->second) {
      objects.push_back(entries_.find(*key)->second.object);
    }
  }
  return UnpackAll(objects);
}

PackedTree ObjectStore::Pack(Node object) const {
  const Node kept = Kept(std::move(object));
  const MutexLock lock(mu_);
  return PackedTree(kept, phrases_);
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
      if (found == index_maps_[i].end()) continue;  // a value that the object has twice
      found->second.erase(&key);
      if (found->second.empty()) index_maps_[i].erase(found);
    }
  }
}

// Deletes an existing object; readers see it gone before `deliver` is called.
void ObjectStore::Remove(const ObjectKey& key, Deliver deliver) {
  const std::optional<Node> before = Get(key);
  JANUS_CHECK(before.has_value(), key.ToString());
  {
    const MutexLock lock(mu_);
    const auto found = entries_.find(key);
    RemoveFromIndexes(found->first, *before);
    entries_.erase(found);
  }
  deliver({DeltaType::kDeleted, key, &*before, nullptr});
}

// Stores the new state. False: nothing that is kept has changed.
bool ObjectStore::Put(Node object, Deliver deliver) {
  const ObjectKey key = KeyOf(object);
  std::optional<Node> before = Get(key);
  if (before && UidOf(*before) != UidOf(object)) {  // (2)
    Remove(key, deliver);
    before.reset();
  }
  // Only writes to the entries need the lock: no other thread changes those of this scope.
  const Node after = Kept(std::move(object));
  if (before && *before == after) {  // (4)
    const MutexLock lock(mu_);
    entries_.find(key)->second.list = ListOf(key);
    return false;
  }
  {
    const MutexLock lock(mu_);
    PackedTree packed(after, phrases_);
    phrases_.Learn(packed);
    const auto at = entries_.try_emplace(key).first;
    if (before) RemoveFromIndexes(at->first, *before);
    at->second = {std::move(packed), ListOf(key)};
    AddToIndexes(at->first, after);
  }
  deliver({before ? DeltaType::kModified : DeltaType::kAdded, key, before ? &*before : nullptr,
           &after});
  return true;
}

uint64_t ObjectStore::ListOf(const ObjectKey& key) const {
  auto found = lists_.find(key.namespace_);
  if (found == lists_.end()) found = lists_.find("");
  return found == lists_.end() ? 0 : found->second;
}

void ObjectStore::BeginList(const std::string& scope) {
  const MutexLock lock(mu_);
  lists_[scope] = ++last_list_;
  JANUS_CHECK(lists_.size() == 1 || !lists_.contains(""), "scopes overlap:", scope);
}

void ObjectStore::TakePage(std::vector<Node> items, Deliver deliver) {
  for (Node& item : items) Put(std::move(item), deliver);
}

void ObjectStore::EndList(Deliver deliver, const std::string& scope) {
  std::vector<ObjectKey> vanished;
  {
    const MutexLock lock(mu_);
    JANUS_CHECK(lists_.contains(scope), "BeginList comes first");
    for (const auto& [key, entry] : entries_) {
      const bool is_told = scope.empty() || key.namespace_ == scope;
      if (is_told && entry.list != lists_[scope]) vanished.push_back(key);
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
  const std::optional<Node> there = Get(key);
  if (!there) return Verdict::kNothingNew;
  // Versions do not tell which of the two is older (5).
  if (UidOf(*there) != UidOf(event.object)) return Verdict::kListAgain;
  Remove(key, deliver);
  return Verdict::kTaken;
}

}  // namespace janus::control
