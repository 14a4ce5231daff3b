#pragma once

#include <string>

#include "common/function_ref.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"

namespace janus::control {

// FailedPrecondition: the environment asks for a proxy on the way to the API server, which this
// client does not do. Other clients, kubectl and Go's among them, would go through it, so that to
// go past it in silence might be to go nowhere, or where nobody is to go.
//
// Read as Go's programs do (golang.org/x/net/http/httpproxy): HTTPS_PROXY, or HTTP_PROXY without
// TLS, in capitals or small letters; NO_PROXY lists names (with all below them; with a dot before
// them those alone), addresses, ranges of addresses, each but ranges with a port if need be, or is
// "*"; this machine is never behind a proxy. `variable` gives a variable's value, empty: unset.
Status RefuseProxy(const ClusterConfig& config,
                   FunctionRef<std::string(const std::string& name)> variable);

}  // namespace janus::control
