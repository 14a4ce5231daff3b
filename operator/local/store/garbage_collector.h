#pragma once

#include <deque>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/kube/object_api.h"
#include "operator/local/store/tables.h"

namespace janus::control {

// Deletion and its consequences (Kubernetes, "Garbage Collection", "Finalizers", "Owners and
// Dependents"): finalizers, grace periods, dependents, the contents of a namespace. A cluster's
// controllers take some time. Here everything happens within the same call, so a caller never sees
// an intermediate state. Each step creates a version.
//
// Rules:
// (1) A deleted object with finalizers or remaining grace is marked, and stays until both are gone.
// (2) An object is deleted once all its owners are gone. If only some are gone, their references
//     are dropped. An owner is gone if no object has its kind, name and uid. An owner of an unknown
//     kind counts as existing.
// (3) kForeground: the owner goes last, after the dependents that block its deletion.
// (4) kOrphan: the dependents lose the reference and stay.
// Confined to the call that holds the store's lock.
class GarbageCollector {
 public:
  GarbageCollector(Tables& tables, WallTime now) : tables_(tables), now_(now) {}

  // The object as marked, or null if it is gone. REQUIRES: it exists.
  SharedObject Delete(const Tables::Place& place, Propagation propagation,
                      std::optional<int64_t> grace_seconds);

  // Stores a changed object, or removes it if the change allows that (rule 1). Returns the changed
  // object.
  SharedObject Write(const Tables::Place& place, Node next);

 private:
  bool MayGo(const Tables::Place& place, const Node& object) const;
  SharedObject Mark(const Tables::Place& place, Propagation propagation,
                    std::optional<int64_t> grace_seconds);
  SharedObject Store(const Tables::Place& place, Node next);
  void Remove(const Tables::Place& place);
  // Checks all objects that a change may affect, until no further change follows.
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
