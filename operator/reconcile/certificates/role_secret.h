#pragma once

#include "operator/api/tree.h"
#include "operator/kube/object_api.h"

namespace janus::control {

struct SecretWritten {
  ApiResult<Node> result;
  bool is_foreign = false;  // of that name there is one that the service does not own
};

// Writes a Secret of a service that is never read: `secret` whole by POST, or over one that is
// there its data alone, by a JSON patch that tests the owner first (RFC 6902, "test"). `is_new`:
// there is none for all that is known, so that POST comes first. Pure but for the calls.
SecretWritten WriteSecret(const Node& secret, bool is_new, ObjectApi& api,
                          const CallLimits& limits);

}  // namespace janus::control
