#include "operator/api/read_object.h"

#include <algorithm>
#include <string>

namespace janus::control {

void Read(const At& at, ObjectMeta& out) {
  Fields(at)
      .Require("name", out.name, "the object's name")
      .Take("namespace", out.namespace_)
      .Take("labels", out.labels)
      .Take("annotations", out.annotations)
      .Take("uid", out.uid)
      .Take("resourceVersion", out.resource_version)
      .Take("generation", out.generation)
      .Skip("generateName")
      .Skip("selfLink")
      .Skip("creationTimestamp")
      .Skip("deletionTimestamp")
      .Skip("deletionGracePeriodSeconds")
      .Skip("ownerReferences")
      .Skip("finalizers")
      .Skip("managedFields")
      .RefuseOthers();
}

void FinishReading(const Node& root, std::string_view kind, FieldErrors& errors) {
  const auto expect = [&](std::string_view field, std::string_view want) {
    const Node* is = root.Find(field);
    if (is == nullptr || is->kind != Node::Kind::kString || is->text == want) return;
    errors.push_back({std::string(field),
                      "is '" + is->text.substr(0, 64) + "'; want " + std::string(want),
                      LineOf(root, field)});
  };
  expect("apiVersion", kApiVersion);
  expect("kind", kind);
  AddLines(root, errors);
  std::stable_sort(errors.begin(), errors.end(),
                   [](const FieldError& a, const FieldError& b) { return a.line < b.line; });
}

}  // namespace janus::control
