#pragma once

#include <deque>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/kube/object_api.h"
#include "operator/local/store/tables.h"

namespace janus::control {

// Deletion and what follows from it (Kubernetes, "Garbage Collection", "Finalizers", "Owners and
// Dependents"): finalizers, grace, dependents, the contents of a namespace. Where a cluster's
// controllers take their time, this is done at once and in the same call, so that a caller sees
// nothing half done; every step is a version of its own.
//
// Rules:
// (1) An object with finalizers, or with grace left, is marked and stays until both are gone.
// (2) An object whose every owner is gone goes too; of several owners those that are gone are
//     dropped. An owner is gone when no object of its kind, name and uid is there; an owner of a
//     kind that the store does not know counts as there.
// (3) kForeground: the owner goes last, after the dependents that block its deletion.
// (4) kOrphan: the dependents lose the reference and stay.
// Confined to the call that holds the store's lock.
class GarbageCollector {
 public:
  GarbageCollector(Tables& tables, WallTime now) : tables_(tables), now_(now) {}

  // The object as it is marked, or null when it has gone. REQUIRES: it is there.
  SharedObject Delete(const Tables::Place& place, Propagation propagation,
                      std::optional<int64_t> grace_seconds);

  // Stores a changed object, or removes it when the change lets it go (rule 1). Returns it as
  // changed.
  SharedObject Write(const Tables::Place& place, Node next);

 private:
  bool MayGo(const Tables::Place& place, const Node& object) const;
  SharedObject Mark(const Tables::Place& place, Propagation propagation,
                    std::optional<int64_t> grace_seconds);
  SharedObject Store(const Tables::Place& place, Node next);
  void Remove(const Tables::Place& place);
  // Looks again at everything that a change may concern, until nothing follows any more.
  void Sweep(const Tables::Place& first);
  void Consider(const Tables::Place& place);
  void ConsiderGoing(const Tables::Place& place, const Node& object);
  void ConsiderOwners(const Tables::Place& place, const Node& object);
  void EmptyNamespace(const std::string& name);
  bool IsEmptyNamespace(const std::string& name) const;

  Tables& tables_;
  const WallTime now_;
  std::deque<Tables::Place> to_consider_;
};

}  // namespace janus::control
