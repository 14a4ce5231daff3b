#include "operator/reconcile/owned.h"

#include "common/fingerprint.h"
#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/names.h"
#include "operator/reconcile/trees.h"

namespace janus::control {

Labels LabelsOf(const MoEService& service, std::string_view component) {
  return {
      {"app.kubernetes.io/component", std::string(component)},
      {"app.kubernetes.io/instance", service.metadata.name},
      {"app.kubernetes.io/managed-by", "janus-operator"},
      {"app.kubernetes.io/name", "janus"},
      {"app.kubernetes.io/part-of", service.metadata.name},
      {std::string(kServiceLabel), service.metadata.name},
  };
}

Node OwnerReference(const MoEService& service) {
  return Object({
      {"apiVersion", Text(kApiVersion)},
      {"kind", Text(kKind)},
      {"name", Text(service.metadata.name)},
      {"uid", Text(service.metadata.uid)},
      {"controller", Node::Bool(true)},
      {"blockOwnerDeletion", Node::Bool(false)},
  });
}

void MakeOwned(const MoEService& service, std::string_view name, const Labels& labels,
               Node& object) {
  SetAt(object, {"metadata", "name"}, Text(name));
  SetAt(object, {"metadata", "namespace"}, Text(service.metadata.namespace_));
  for (const auto& [label, value] : labels) {
    SetAt(object, {"metadata", "labels", label}, Text(value));
  }
  SetAt(object, {"metadata", "ownerReferences"}, ListOf({OwnerReference(service)}));
  SetAt(object, {"metadata", "annotations", kWantedAnnotation},
        Text(Fingerprint().Mix(WriteJson(object)).Hex()));
}

Standing Judge(const MoEService& service, const Node& there, const Node& wanted) {
  const Node* owners = FindAt(there, {"metadata", "ownerReferences"});
  bool ours = false;
  if (owners != nullptr) {
    for (const Node& owner : owners->items) {
      const Node* controller = owner.Find("controller");
      ours = ours || (controller != nullptr && controller->boolean &&
                      TextAt(owner, {"uid"}) == service.metadata.uid);
    }
  }
  if (!ours) return Standing::kForeign;
  if (FindAt(there, {"metadata", "deletionTimestamp"}) != nullptr) return Standing::kLeaving;
  const FieldPath hash = {"metadata", "annotations", kWantedAnnotation};
  return TextAt(there, hash) == TextAt(wanted, hash) ? Standing::kAsWanted : Standing::kDrifted;
}

}  // namespace janus::control
