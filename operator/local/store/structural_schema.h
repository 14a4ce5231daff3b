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

// Adds the defaults of the schema to existing objects.
void SetDefaults(const Node& schema, Node& value);

// Removes from `value` the fields that the schema does not have, and returns their paths. `path` is
// the position of `value`. It also removes nulls where the schema has neither a default nor
// `nullable`, without reporting them. At the root (empty path) apiVersion, kind and metadata stay.
std::vector<std::string> PruneBySchema(const Node& schema, const std::string& path, Node& value);

// Compiled patterns of a schema, by their text.
using Patterns = std::map<std::string, std::regex, std::less<>>;

// Validates `value` at `path`: types, required fields, enumerations, bounds, repeated keys of a
// list, patterns and the format date-time, with the server's reasons. A pattern is checked only if
// the text does not exceed maxLength.
std::vector<ApiCause> JudgeBySchema(const Node& schema, const Patterns& patterns,
                                    const std::string& path, const Node& value);

// The schema of a CustomResourceDefinition with one version, and what the API server does with it
// before it evaluates rules (Kubernetes, "Extend the Kubernetes API with
// CustomResourceDefinitions": pruning, defaulting). apiVersion, kind and metadata are not part of
// it. Immutable, thread-safe.
class StructuralSchema {
 public:
  // InvalidArgument: not a CRD with one version and a schema, or an invalid pattern.
  static Result<StructuralSchema> FromCrd(std::string_view yaml, std::string_view file);

  // PruneBySchema from the root.
  std::vector<std::string> Prune(Node& object) const { return PruneBySchema(root_, "", object); }

  // Validates `status`, for which there is no typed reader.
  std::vector<ApiCause> JudgeStatus(const Node& object) const;

  const Node& root() const { return root_; }

 private:
  StructuralSchema(Node root, Patterns status_patterns)
      : root_(std::move(root)), status_patterns_(std::move(status_patterns)) {}

  Node root_;
  Patterns status_patterns_;
};

}  // namespace janus::control
