#pragma once

#include <string>

#include "common/function_ref.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"

namespace janus::control {

// FailedPrecondition: the environment asks for a proxy on the way to the API server, which this
// client does not support. Other clients, such as kubectl, would use it. So bypassing it silently
// might reach nothing, or a forbidden server.
//
// Read as Go's programs do (golang.org/x/net/http/httpproxy): HTTPS_PROXY, or HTTP_PROXY without
// TLS, in capitals or small letters; NO_PROXY lists names (with all below them; with a dot before
// them those alone), addresses, ranges of addresses, each but ranges with a port if need be, or is
// "*"; this machine is never behind a proxy. `variable` gives a variable's value, empty: unset.
Status RefuseProxy(const ClusterConfig& config,
                   FunctionRef<std::string(const std::string& name)> variable);

}  // namespace janus::control
