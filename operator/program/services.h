#pragma once

#include <string>
#include <vector>

#include "operator/kube/object_api.h"

namespace janus::control {

// "namespace/name" of every MoEService in these namespaces, or in all if the list is empty, in
// their order. Empty if the cluster does not have the kind.
ApiResult<std::vector<std::string>> ServicesIn(ObjectApi& api,
                                               const std::vector<std::string>& namespaces);

// `janus-operator services` prints them. Exit code: 0 without services, 1 with some, 2 for
// invalid flags or if the API server gave no answer.
int RunServices(int argc, const char* const* argv);

}  // namespace janus::control
