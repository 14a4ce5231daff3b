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
  // `fields`: which ones may be asked for besides metadata.name and metadata.namespace.
  // InvalidArgument: broken syntax, another field.
  static Result<Selector> Parse(const Selection& selection,
                                std::span<const std::string_view> fields);

  bool Matches(const Node& object) const;

 private:
  // `key` is, or is not, one of `values`; without values: is there, or is not.
  struct Requirement {
    std::string key;
    bool is_negated = false;
    bool has_values = false;
    std::vector<std::string> values;
  };
  friend class SelectorReader;

  static bool Holds(const Requirement& requirement, const std::string* value);

  std::string in_namespace_;
  std::vector<Requirement> labels_;
  std::vector<Requirement> fields_;  // key: "spec.nodeName"; an absent field reads as ""
};

}  // namespace janus::control
