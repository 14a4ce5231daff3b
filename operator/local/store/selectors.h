#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// The parsed selection of a list or watch (Kubernetes API, "Labels and Selectors" and "Field
// Selectors"). Immutable, thread-safe.
class Selector {
 public:
  // Labels: every operator of the server, with > and < for `gt` and `lt`. Fields: only =, == and
  // !=. `fields`: the fields allowed besides metadata.name and metadata.namespace. InvalidArgument:
  // broken syntax, or another field.
  static Result<Selector> Parse(const Selection& selection,
                                std::span<const std::string_view> fields);

  bool Matches(const Node& object) const;

 private:
  struct Requirement {
    enum class Op { kPresent, kAbsent, kIn, kNotIn, kAbove, kBelow };
    std::string key;
    Op op = Op::kPresent;
    // kIn: the value is one of them. kNotIn: it is absent or another one. kAbove, kBelow: one
    // integer to compare with.
    std::vector<std::string> values;
  };
  friend class LabelReader;
  friend class FieldReader;

  static bool Holds(const Requirement& requirement, const std::string* value);

  std::string in_namespace_;
  std::vector<Requirement> labels_;
  std::vector<Requirement> fields_;  // key: "spec.nodeName"; an absent field reads as ""
};

}  // namespace janus::control
