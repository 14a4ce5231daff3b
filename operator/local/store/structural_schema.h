#pragma once

#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"
#include "operator/kube/error.h"

namespace janus::control {

// Adds the defaults of a schema's fields that are not there, in the objects that are.
void SetDefaults(const Node& schema, Node& value);

// Removes of `value`, which stands at `path`, the fields that the schema does not have; their
// paths. And, unsaid, those that are null where the schema has neither a default for them nor
// `nullable`. At the root (an empty path) apiVersion, kind and metadata stay.
std::vector<std::string> PruneBySchema(const Node& schema, const std::string& path, Node& value);

// Of the patterns of a schema, by their text.
using Patterns = std::map<std::string, std::regex, std::less<>>;

// What is wrong with `value`, which stands at `path`: types, required fields, enumerations, bounds,
// repeated keys of a list, patterns and the format date-time; with the server's reasons.
// A pattern is judged in what is not longer than its maxLength.
std::vector<ApiCause> JudgeBySchema(const Node& schema, const Patterns& patterns,
                                    const std::string& path, const Node& value);

// The schema of a CustomResourceDefinition's one version, and what the API server does with it
// before any rule is judged (Kubernetes, "Extend the Kubernetes API with
// CustomResourceDefinitions": pruning, defaulting). apiVersion, kind and metadata are outside of
// it. Immutable, thread-safe.
class StructuralSchema {
 public:
  // InvalidArgument: no CRD with one version and a schema, a pattern that is none.
  static Result<StructuralSchema> FromCrd(std::string_view yaml, std::string_view file);

  // PruneBySchema from the root.
  std::vector<std::string> Prune(Node& object) const { return PruneBySchema(root_, "", object); }

  // What is wrong with `status`, which no typed reader knows.
  std::vector<ApiCause> JudgeStatus(const Node& object) const;

  const Node& root() const { return root_; }

 private:
  StructuralSchema(Node root, Patterns status_patterns)
      : root_(std::move(root)), status_patterns_(std::move(status_patterns)) {}

  Node root_;
  Patterns status_patterns_;
};

}  // namespace janus::control
