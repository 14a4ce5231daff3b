#pragma once

#include <string>
#include <vector>

#include "operator/kube/object_api.h"

namespace janus::control {

// "namespace/name" of every MoEService in these namespaces, or in all where none is named, in their
// order. A cluster without the kind has none.
ApiResult<std::vector<std::string>> ServicesIn(ObjectApi& api,
                                               const std::vector<std::string>& namespaces);

// `janus-operator services`: prints them. Its exit code: 0 where there is none, 1 where there are,
// 2 for flags it does not understand and when the API server cannot be asked.
int RunServices(int argc, const char* const* argv);

}  // namespace janus::control
