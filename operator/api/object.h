#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// Common to all kinds of the group.

inline constexpr std::string_view kApiVersion = "serving.janus.dev/v1alpha1";

struct ObjectMeta {
  std::string name;
  std::string namespace_;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
};

// An object read from a tree, with its errors.
template <class Object>
struct Parsed {
  Object object;       // meaningful only without errors
  FieldErrors errors;  // all, in document order; with lines if the tree has them
};

}  // namespace janus::control
