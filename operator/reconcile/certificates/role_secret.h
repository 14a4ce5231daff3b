#pragma once

#include "operator/api/tree.h"
#include "operator/kube/object_api.h"

namespace janus::control {

struct SecretWritten {
  ApiResult<Node> result;
  bool is_foreign = false;  // a Secret of that name exists and the service does not own it
};

// Writes a Secret without reading it. It creates the Secret by POST. If it exists, only its data
// changes, with a JSON patch that first tests the owner (RFC 6902, "test"). `is_new`: it probably
// does not exist, so try POST first. Pure except for the calls.
SecretWritten WriteSecret(const Node& secret, bool is_new, ObjectApi& api,
                          const CallLimits& limits);

}  // namespace janus::control
