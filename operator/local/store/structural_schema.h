#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Adds the defaults of a schema's fields that are not there, in the objects that are.
void SetDefaults(const Node& schema, Node& value);

// The schema of a CustomResourceDefinition's one version, and what the API server does with it
// before any rule is judged (Kubernetes, "Extend the Kubernetes API with
// CustomResourceDefinitions": pruning, defaulting). apiVersion, kind and metadata are outside of
// it. Immutable, thread-safe.
class StructuralSchema {
 public:
  // InvalidArgument: no CRD with one version and a schema.
  static Result<StructuralSchema> FromCrd(std::string_view yaml, std::string_view file);

  // Removes the fields that the schema does not have; their paths. And, unsaid, those that are null
  // where the schema has neither a default for them nor `nullable`.
  std::vector<std::string> Prune(Node& object) const;

  // What is wrong with `status`, which no typed reader knows: types, required fields, enumerations
  // and bounds. Patterns and formats are not judged.
  FieldErrors JudgeStatus(const Node& object) const;

  const Node& root() const { return root_; }

 private:
  explicit StructuralSchema(Node root) : root_(std::move(root)) {}

  Node root_;
};

}  // namespace janus::control
