#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"

namespace janus::control {

// Keeps of an object only the fields asked for, and with them what tells it apart: apiVersion, kind
// and of metadata name, namespace and uid. metadata.resourceVersion only if asked for: a copy with
// it changes with every change of the object. Immutable; thread-safe.
class FieldFilter {
 public:
  struct Field {
    std::string name;
    std::vector<Field> fields;  // empty: all below it
  };

  // "spec.nodeName" keeps that field with all below it. A list is passed through: of
  // "spec.containers.name" every container keeps its name; a text or number on the way is kept.
  // Names with a point in them cannot be told apart; ask for the field above them
  // ("metadata.labels").
  explicit FieldFilter(const std::vector<std::string_view>& paths);

  // Takes no more memory than what is kept needs. What is asked for and not there is left out.
  Node operator()(Node object) const;

  // One that keeps `path` as well.
  FieldFilter With(std::string_view path) const;
  const std::vector<Field>& fields() const { return fields_; }

 private:
  static void Insert(std::vector<Field>& fields, std::string_view path);
  static Node Keep(const std::vector<Field>& wanted, Node value);

  std::vector<Field> fields_;
};

}  // namespace janus::control
