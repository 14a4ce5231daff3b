#include "operator/local/store/field_ownership.h"

#include <utility>

namespace janus::control {
namespace {

bool IsSame(const Node* a, const Node* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

// Parts of `after` that are missing or different in `before`.
FieldSet Changed(const ObjectParts& before, const ObjectParts& after) {
  FieldSet out;
  for (const auto& [path, value] : after) {
    const auto was = before.find(path);
    if (was == before.end() || !IsSame(was->second, value)) out.insert(path);
  }
  return out;
}

// Establishes invariant (1).
void KeepWhatIs(const ObjectParts& parts, Ownership& ownership) {
  for (auto& [manager, set] : ownership) {
    std::erase_if(set, [&](const FieldSetPath& path) { return !parts.contains(path); });
  }
  std::erase_if(ownership, [](const auto& entry) { return entry.second.empty(); });
}

// Establishes invariant (2).
void TakeFromOthers(const FieldSet& changed, const FieldManager& taker, Ownership& ownership) {
  for (auto& [manager, set] : ownership) {
    if (manager == taker) continue;
    for (const FieldSetPath& path : changed) set.erase(path);
  }
}

}  // namespace

Ownership AfterUpdate(const Ownership& before, const FieldManager& writer,
                      const ObjectParts& old_parts, const ObjectParts& new_parts) {
  Ownership out = before;
  const FieldSet changed = Changed(old_parts, new_parts);
  TakeFromOthers(changed, writer, out);
  out[writer].insert(changed.begin(), changed.end());
  KeepWhatIs(new_parts, out);
  return out;
}

Applied ApplyFields(const Node& live, const Ownership& ownership, const FieldManager& manager,
                    const Node& wanted, const TypeCursor& root) {
  FieldSet said;
  for (const auto& [path, value] : PartsOf(wanted, root)) said.insert(path);
  const auto last = ownership.find(manager);
  const FieldSet said_before = last == ownership.end() ? FieldSet() : last->second;

  Applied out;
  out.object = MergeApplied(&live, wanted, root);
  const auto is_owned = [&](const FieldSetPath& path) {
    if (HasBelow(said, path)) return true;
    for (const auto& [other, set] : ownership) {
      if (other != manager && HasBelow(set, path)) return true;
    }
    return false;
  };
  // From the inside out: an item goes after its fields.
  for (auto path = said_before.rbegin(); path != said_before.rend(); ++path) {
    if (!is_owned(*path)) RemovePart(out.object, *path, root);
  }

  const ObjectParts new_parts = PartsOf(out.object, root);
  const FieldSet changed = Changed(PartsOf(live, root), new_parts);
  for (const auto& [other, set] : ownership) {
    if (other == manager) continue;
    for (const FieldSetPath& path : set) {
      if (changed.contains(path)) out.conflicts.push_back({other, path});
    }
  }
  out.ownership = ownership;
  TakeFromOthers(changed, manager, out.ownership);
  out.ownership[manager] = std::move(said);
  KeepWhatIs(new_parts, out.ownership);
  return out;
}

}  // namespace janus::control
