#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// Which objects a list or watch is about, read once (Kubernetes API, "Labels and Selectors" and
// "Field Selectors"). Immutable, thread-safe.
class Selector {
 public:
  // Labels by every operator that the server has, `gt` and `lt` written > and <; fields by =, ==
  // and
  // != alone. `fields`: which ones may be asked for besides metadata.name and metadata.namespace.
  // InvalidArgument: broken syntax, another field.
  static Result<Selector> Parse(const Selection& selection,
                                std::span<const std::string_view> fields);

  bool Matches(const Node& object) const;

 private:
  struct Requirement {
    enum class Op { kPresent, kAbsent, kIn, kNotIn, kAbove, kBelow };
    std::string key;
    Op op = Op::kPresent;
    // kIn, kNotIn: a value is one of them, or none of them or absent. kAbove, kBelow: one integer,
    // to which an integer is compared.
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
