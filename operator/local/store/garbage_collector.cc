#include "operator/local/store/garbage_collector.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "operator/api/rfc3339.h"
#include "operator/local/store/metadata.h"

namespace janus::control {
namespace {

constexpr int64_t kDefaultGraceSeconds = 30;  // a pod's spec.terminationGracePeriodSeconds

// The time that the kubelet has to end the containers.
int64_t GraceOf(const Kind& kind, const Node& object, std::optional<int64_t> asked) {
  if (!kind.goes_gracefully || TextAt(object, {"spec", "nodeName"}).empty()) return 0;
  const std::string_view phase = TextAt(object, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return 0;
  const int64_t own =
      IntegerAt(object, {"spec", "terminationGracePeriodSeconds"}).value_or(kDefaultGraceSeconds);
  return std::max<int64_t>(0, asked.value_or(own));
}

int64_t GraceLeft(const Node& object) {
  return IntegerAt(object, {"metadata", "deletionGracePeriodSeconds"}).value_or(0);
}

void SetFinalizers(Propagation propagation, Node& object) {
  RemoveFinalizer(object, kForegroundFinalizer);
  RemoveFinalizer(object, kOrphanFinalizer);
  if (propagation == Propagation::kForeground) AddFinalizer(object, kForegroundFinalizer);
  if (propagation == Propagation::kOrphan) AddFinalizer(object, kOrphanFinalizer);
}

Propagation PropagationOf(const Node& object) {
  if (HasFinalizer(object, kOrphanFinalizer)) return Propagation::kOrphan;
  if (HasFinalizer(object, kForegroundFinalizer)) return Propagation::kForeground;
  return Propagation::kBackground;
}

// Where the owner must be: in its dependent's namespace, if its kind is namespaced.
ObjectKey KeyOfOwner(const Kind& kind, const OwnerReference& owner, const ObjectKey& dependent) {
  return {kind.resource.is_namespaced ? dependent.namespace_ : "", owner.name};
}

}  // namespace

SharedObject GarbageCollector::Delete(const Tables::Place& place, Propagation propagation,
                                      std::optional<int64_t> grace_seconds) {
  SharedObject marked = Mark(place, propagation, grace_seconds);
  Sweep(place);
  return marked;
}

SharedObject GarbageCollector::Write(const Tables::Place& place, Node next) {
  SharedObject written = Store(place, std::move(next));
  Sweep(place);
  return written;
}

bool GarbageCollector::MayGo(const Tables::Place& place, const Node& object) const {
  if (HasFinalizers(object) || GraceLeft(object) > 0) return false;
  return !place.first->is_namespace() || IsEmptyNamespace(place.second.name);
}

SharedObject GarbageCollector::Mark(const Tables::Place& place, Propagation propagation,
                                    std::optional<int64_t> grace_seconds) {
  const SharedObject live = tables_.Find(place);
  Node next = *live;
  SetFinalizers(propagation, next);
  int64_t grace = GraceOf(*place.first, next, grace_seconds);
  const bool is_first = !IsBeingDeleted(next);
  if (!is_first) grace = std::min(grace, GraceLeft(next));
  if (is_first || grace < GraceLeft(next)) {
    SetAt(next, {"metadata", "deletionTimestamp"},
          Node::String(FormatTime(now_ + std::chrono::seconds(grace))));
    SetAt(next, {"metadata", "deletionGracePeriodSeconds"}, Node::Integer(grace));
  }
  if (MayGo(place, next)) {
    Remove(place);
    return nullptr;
  }
  const std::optional<int64_t> generation = IntegerAt(next, {"metadata", "generation"});
  if (is_first && generation) {
    SetAt(next, {"metadata", "generation"}, Node::Integer(*generation + 1));
  }
  if (is_first && place.first->is_namespace()) {
    SetAt(next, {"status", "phase"}, Node::String("Terminating"));
  }
  if (next == *live) return live;
  return tables_.Put(*place.first, place.second, std::move(next));
}

SharedObject GarbageCollector::Store(const Tables::Place& place, Node next) {
  if (!IsBeingDeleted(next) || !MayGo(place, next)) {
    return tables_.Put(*place.first, place.second, std::move(next));
  }
  auto last = std::make_shared<const Node>(std::move(next));
  Remove(place);
  return last;
}

void GarbageCollector::Remove(const Tables::Place& place) {
  const SharedObject last = tables_.Remove(*place.first, place.second);
  for (Tables::Place& dependent : tables_.DependentsOf(std::string(UidOf(*last)))) {
    to_consider_.push_back(std::move(dependent));
  }
  for (const OwnerReference& owner : OwnersOf(*last)) {
    const Kind* const kind = FindKind(owner.api_version, owner.kind);
    if (kind != nullptr) to_consider_.push_back({kind, KeyOfOwner(*kind, owner, place.second)});
  }
  if (!place.second.namespace_.empty()) {
    to_consider_.push_back({FindKind("v1", "Namespace"), {"", place.second.namespace_}});
  }
}

void GarbageCollector::Sweep(const Tables::Place& first) {
  to_consider_.push_back(first);
  while (!to_consider_.empty()) {
    const Tables::Place place = to_consider_.front();
    to_consider_.pop_front();
    Consider(place);
  }
}

void GarbageCollector::Consider(const Tables::Place& place) {
  const SharedObject object = tables_.Find(place);
  if (object == nullptr) return;
  if (IsBeingDeleted(*object)) {
    ConsiderGoing(place, *object);
  } else {
    ConsiderOwners(place, *object);
  }
}

void GarbageCollector::ConsiderGoing(const Tables::Place& place, const Node& object) {
  if (place.first->is_namespace()) {
    EmptyNamespace(place.second.name);
    if (MayGo(place, object)) Remove(place);
    return;
  }
  const std::string uid(UidOf(object));
  const std::vector<Tables::Place> dependents = tables_.DependentsOf(uid);
  Node next = object;
  if (HasFinalizer(object, kOrphanFinalizer)) {
    for (const Tables::Place& dependent : dependents) {
      Node freed = *tables_.Find(dependent);
      DropOwners(freed, {uid});
      Store(dependent, std::move(freed));
    }
    RemoveFinalizer(next, kOrphanFinalizer);
  } else if (HasFinalizer(object, kForegroundFinalizer)) {
    const auto blocks = [&](const Tables::Place& dependent) {
      const std::vector<OwnerReference> owners = OwnersOf(*tables_.Find(dependent));
      return std::any_of(owners.begin(), owners.end(), [&](const OwnerReference& owner) {
        return owner.uid == uid && owner.blocks_deletion;
      });
    };
    for (const Tables::Place& dependent : dependents) {
      if (!IsBeingDeleted(*tables_.Find(dependent))) to_consider_.push_back(dependent);
    }
    if (std::any_of(dependents.begin(), dependents.end(), blocks)) return;
    RemoveFinalizer(next, kForegroundFinalizer);
  } else {
    return;
  }
  // It may be gone if it was its own dependent.
  if (tables_.Find(place) != nullptr) Store(place, std::move(next));
}

void GarbageCollector::ConsiderOwners(const Tables::Place& place, const Node& object) {
  bool has_owner = false;
  bool is_awaited = false;  // by an owner in foreground deletion
  std::vector<std::string> gone;
  const std::vector<OwnerReference> owners = OwnersOf(object);
  for (const OwnerReference& owner : owners) {
    const Kind* const kind = FindKind(owner.api_version, owner.kind);
    if (kind == nullptr) {
      has_owner = true;
      continue;
    }
    const SharedObject found = tables_.Find(*kind, KeyOfOwner(*kind, owner, place.second));
    const bool is_there = found != nullptr && UidOf(*found) == owner.uid;
    if (is_there && !(IsBeingDeleted(*found) && HasFinalizer(*found, kForegroundFinalizer))) {
      has_owner = true;
      continue;
    }
    is_awaited = is_awaited || is_there;
    gone.push_back(owner.uid);
  }
  if (gone.empty()) return;
  if (has_owner) {
    Node next = object;
    DropOwners(next, gone);
    Store(place, std::move(next));
    // An owner that waits for this object may go now.
    for (const OwnerReference& owner : owners) {
      const Kind* const kind = FindKind(owner.api_version, owner.kind);
      if (kind != nullptr) to_consider_.push_back({kind, KeyOfOwner(*kind, owner, place.second)});
    }
    return;
  }
  const bool has_dependents = !tables_.DependentsOf(std::string(UidOf(object))).empty();
  const Propagation propagation =
      is_awaited && has_dependents ? Propagation::kForeground : PropagationOf(object);
  Mark(place, propagation, std::nullopt);
  to_consider_.push_back(place);
}

void GarbageCollector::EmptyNamespace(const std::string& name) {
  for (const Kind& kind : Kinds()) {
    if (!kind.resource.is_namespaced) continue;
    std::vector<ObjectKey> keys;
    const Table& table = tables_.TableOf(kind);
    for (auto one = table.lower_bound({name, ""}); one != table.end(); ++one) {
      if (one->first.namespace_ != name) break;
      if (!IsBeingDeleted(*one->second)) keys.push_back(one->first);
    }
    for (const ObjectKey& key : keys) {
      Mark({&kind, key}, Propagation::kBackground, std::nullopt);
    }
  }
}

bool GarbageCollector::IsEmptyNamespace(const std::string& name) const {
  return std::none_of(Kinds().begin(), Kinds().end(), [&](const Kind& kind) {
    if (!kind.resource.is_namespaced) return false;
    const Table& table = tables_.TableOf(kind);
    const auto first = table.lower_bound({name, ""});
    return first != table.end() && first->first.namespace_ == name;
  });
}

}  // namespace janus::control
