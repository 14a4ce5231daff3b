#include "operator/reconcile/children/apply_takeover.h"

#include <cstddef>
#include <string>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

Node Replacement(const std::string& path, Node value) {
  return Object({{"op", Text("replace")}, {"path", Text(path)}, {"value", std::move(value)}});
}

}  // namespace

std::optional<Node> TakeoverPatch(const Node& there) {
  const Node* const entries = FindAt(there, {"metadata", "managedFields"});
  if (entries == nullptr) return std::nullopt;
  const std::string wanted = "f:" + std::string(kWantedAnnotation);
  for (size_t i = 0; i < entries->items.size(); ++i) {
    const Node& entry = entries->items[i];
    if (FindAt(entry, {"fieldsV1", "f:metadata", "f:annotations", wanted}) == nullptr) continue;
    if (TextAt(entry, {"operation"}) != "Update") return std::nullopt;
    const std::string path = "/metadata/managedFields/" + std::to_string(i) + "/operation";
    return ListOf({Replacement(path, Text("Apply")),
                   Replacement("/metadata/resourceVersion", Text(ResourceVersionOf(there)))});
  }
  return std::nullopt;
}

}  // namespace janus::control
