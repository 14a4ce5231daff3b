#include "operator/reconcile/objects/owned.h"

#include <algorithm>

#include "common/fingerprint.h"
#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"

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

bool IsControlledBy(const Node& object, std::string_view service_uid) {
  const Node* owners = FindAt(object, {"metadata", "ownerReferences"});
  if (owners == nullptr) return false;
  return std::any_of(owners->items.begin(), owners->items.end(), [&](const Node& owner) {
    const Node* controller = owner.Find("controller");
    return controller != nullptr && controller->boolean && TextAt(owner, {"uid"}) == service_uid;
  });
}

Standing Judge(const MoEService& service, const Node& there, const Node& wanted) {
  if (!IsControlledBy(there, service.metadata.uid)) return Standing::kForeign;
  if (FindAt(there, {"metadata", "deletionTimestamp"}) != nullptr) return Standing::kLeaving;
  const FieldPath hash = {"metadata", "annotations", kWantedAnnotation};
  const bool is_same = TextAt(there, hash) == TextAt(wanted, hash) && Covers(there, wanted);
  return is_same ? Standing::kAsWanted : Standing::kDrifted;
}

bool Covers(const Node& there, const Node& wanted) {
  if (wanted.kind == Node::Kind::kMap) {
    return std::all_of(wanted.fields.begin(), wanted.fields.end(), [&](const NodeField& field) {
      const Node* value = there.Find(field.name);
      return value != nullptr && Covers(*value, field.value);
    });
  }
  if (wanted.kind == Node::Kind::kList) {
    return there.items.size() == wanted.items.size() &&
           std::equal(wanted.items.begin(), wanted.items.end(), there.items.begin(),
                      [](const Node& a, const Node& b) { return Covers(b, a); });
  }
  return there == wanted;
}

}  // namespace janus::control
