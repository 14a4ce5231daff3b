#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace janus {

// A channel to one instance, by gRPC address ("host:port", "unix:/path"), with a connection of its
// own. Pauses between calls are the caller's; an instance that comes up is found soon, and one
// whose machine is gone is noticed without traffic.
std::shared_ptr<grpc::Channel> DialInstance(const std::string& address);

}  // namespace janus
