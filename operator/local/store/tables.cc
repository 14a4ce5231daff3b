#include "operator/local/store/tables.h"

#include <utility>

#include "common/check.h"
#include "operator/local/store/metadata.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

SharedObject WithVersion(Node object, int64_t version) {
  SetAt(object, {"metadata", "resourceVersion"}, Node::String(std::to_string(version)));
  SortFields(object);
  return std::make_shared<const Node>(std::move(object));
}

}  // namespace

Tables::Tables(const TableLimits& limits)
    : limits_(limits), history_(kFirstVersion, limits.max_changes, limits.max_history_bytes) {
  for (const Kind& kind : Kinds()) tables_[&kind];
}

SharedObject Tables::Find(const Kind& kind, const ObjectKey& key) const {
  const Table& table = TableOf(kind);
  const auto found = table.find(key);
  return found == table.end() ? nullptr : found->second;
}

const Table& Tables::TableOf(const Kind& kind) const {
  return tables_.at(&kind);
}

std::vector<Tables::Place> Tables::DependentsOf(const std::string& uid) const {
  const auto found = dependents_.find(uid);
  if (found == dependents_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

SharedObject Tables::Put(const Kind& kind, const ObjectKey& key, Node object) {
  const int64_t next = version() + 1;
  const SharedObject after = WithVersion(std::move(object), next);
  const SharedObject before = std::exchange(tables_.at(&kind)[key], after);
  bytes_ += BytesOf(*after);
  if (before != nullptr) bytes_ -= BytesOf(*before);
  Index({&kind, key}, before.get(), after.get());
  history_.Append({next, &kind, key, before, after});
  return after;
}

SharedObject Tables::Remove(const Kind& kind, const ObjectKey& key) {
  Table& table = tables_.at(&kind);
  const auto found = table.find(key);
  JANUS_CHECK(found != table.end(), key.ToString());
  const SharedObject before = std::move(found->second);
  table.erase(found);
  bytes_ -= BytesOf(*before);
  Index({&kind, key}, before.get(), nullptr);
  const int64_t next = version() + 1;
  history_.Append({next, &kind, key, before, nullptr});
  return WithVersion(*before, next);
}

Table Tables::SnapshotAt(const Kind& kind, int64_t version) const {
  Table out = TableOf(kind);
  for (int64_t undone = history_.newest(); undone > version; --undone) {
    const Change& change = history_.At(undone);
    if (change.kind != &kind) continue;
    if (change.before == nullptr) {
      out.erase(change.key);
    } else {
      out[change.key] = change.before;
    }
  }
  return out;
}

void Tables::Index(const Place& place, const Node* before, const Node* after) {
  if (before != nullptr) {
    for (const OwnerReference& owner : OwnersOf(*before)) {
      const auto found = dependents_.find(owner.uid);
      if (found == dependents_.end()) continue;  // an owner named twice
      found->second.erase(place);
      if (found->second.empty()) dependents_.erase(found);
    }
  }
  if (after == nullptr) return;
  for (const OwnerReference& owner : OwnersOf(*after)) dependents_[owner.uid].insert(place);
}

}  // namespace janus::control
