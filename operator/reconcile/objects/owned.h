#pragma once

#include <map>
#include <string>
#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// Adds ownership metadata to a service's objects, and compares existing objects with wanted ones.

using Labels = std::map<std::string, std::string>;

// app.kubernetes.io/{name,instance,component,part-of,managed-by} and kServiceLabel.
Labels LabelsOf(const MoEService& service, std::string_view component);

// Owner reference: the API server deletes the object with the service. The service is its
// controller; deleting the service does not wait for it.
Node OwnerReference(const MoEService& service);

// Adds name, namespace, labels and owner, then kWantedAnnotation, a hash of everything; so call it
// last. `object` has apiVersion and kind; its metadata stays.
void MakeOwned(const MoEService& service, std::string_view name, const Labels& labels,
               Node& object);

enum class Standing {
  kAsWanted,
  kDrifted,  // ours, but has another hash or none, or one of our fields changed
  kForeign,  // has this name, but the service does not control it: never touched
  kLeaving,  // ours and being deleted: wait for its end
};

// Compares an existing object with the wanted one of the same name. A value that the server
// rewrites ("1000m" as "1") counts as drift too, so the caller remembers the version after its
// apply.
Standing Judge(const MoEService& service, const Node& there, const Node& wanted);

// True if `there` contains all of `wanted`; lists must have equal length and match by item.
bool Covers(const Node& there, const Node& wanted);

// True if the service of that uid controls it.
bool IsControlledBy(const Node& object, std::string_view service_uid);

}  // namespace janus::control
