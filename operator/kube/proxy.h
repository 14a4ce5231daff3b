#pragma once

#include <string>

#include "common/function_ref.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"

namespace janus::control {

// FailedPrecondition: the environment asks for a proxy to the API server, which this client does
// not support. Other clients, such as kubectl, would use it. Bypassing it silently might fail, or
// reach a forbidden server.
//
// Follows Go's rules (golang.org/x/net/http/httpproxy): HTTPS_PROXY, or HTTP_PROXY without TLS, in
// upper or lower case. NO_PROXY is "*" or a list of host names (which include subdomains; with a
// leading dot, only subdomains), addresses and address ranges. Names and addresses may have a port.
// The local machine never uses a proxy. `variable` returns a variable's value; empty: unset.
Status RefuseProxy(const ClusterConfig& config,
                   FunctionRef<std::string(const std::string& name)> variable);

}  // namespace janus::control
