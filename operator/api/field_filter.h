#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"

namespace janus::control {

// Keeps only the requested fields of an object, and its identity: apiVersion, kind and, from
// metadata, name, namespace and uid. metadata.resourceVersion is kept only on request, since it
// changes with every change of the object. Immutable; thread-safe.
class FieldFilter {
 public:
  struct Field {
    std::string name;
    std::vector<Field> fields;  // empty: all below it
  };

  // "spec.nodeName" keeps that field with everything below it. A path goes through lists: with
  // "spec.containers.name" every container keeps its name. A text or number on the way is kept. A
  // field name that contains a point cannot be addressed; request the field above it
  // ("metadata.labels").
  explicit FieldFilter(const std::vector<std::string_view>& paths);

  // Uses no more memory than the kept fields need. Missing fields are skipped.
  Node operator()(Node object) const;

  // A filter that also keeps `path`.
  FieldFilter With(std::string_view path) const;
  const std::vector<Field>& fields() const { return fields_; }

 private:
  static void Insert(std::vector<Field>& fields, std::string_view path);
  static Node Keep(const std::vector<Field>& wanted, Node value);

  std::vector<Field> fields_;
};

}  // namespace janus::control
