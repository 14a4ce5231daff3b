#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// What all kinds of the group have in common.

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

// An object read out of a tree, and what was wrong with it.
template <class Object>
struct Parsed {
  Object object;  // meaningful only without errors
  FieldErrors
      errors;  // every one, in the order of the document; with lines where the tree has them
};

}  // namespace janus::control
