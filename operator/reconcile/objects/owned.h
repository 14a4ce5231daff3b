#pragma once

#include <map>
#include <string>
#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// What stands around every object that belongs to a service, and how one that is there is judged.

using Labels = std::map<std::string, std::string>;

// app.kubernetes.io/{name,instance,component,part-of,managed-by} and kServiceLabel.
Labels LabelsOf(const MoEService& service, std::string_view component);

// The reference by which the API server deletes the object with the service. The service controls
// it; what deletes the service need not wait for it.
Node OwnerReference(const MoEService& service);

// Adds name, namespace, labels and owner, then kWantedAnnotation: a hash of the whole. To be called
// last. `object` has apiVersion and kind; metadata that it has stays.
void MakeOwned(const MoEService& service, std::string_view name, const Labels& labels,
               Node& object);

enum class Standing {
  kAsWanted,
  kDrifted,  // ours, and wants another hash, had its hash taken away, or a field of ours changed
  kForeign,  // of this name, and not controlled by the service: never touched
  kLeaving,  // ours, and being deleted: wait for its end
};

// Of an object that has the name of one that `service` wants. What a server writes in its own way
// ("1000m" as "1") is drift too: the caller remembers the version that its apply has led to.
Standing Judge(const MoEService& service, const Node& there, const Node& wanted);

// Whether everything of `wanted` is in `there`; lists item by item, as many.
bool Covers(const Node& there, const Node& wanted);

// Whether the service of that uid controls it.
bool IsControlledBy(const Node& object, std::string_view service_uid);

}  // namespace janus::control
