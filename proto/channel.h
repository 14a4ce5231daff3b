#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace janus {

// A channel to one instance, by gRPC address ("host:port", "unix:/path"), with a connection of its
// own. Pauses between calls are the caller's; an instance that comes up is found soon, and one
// whose machine is gone is noticed without traffic.
std::shared_ptr<grpc::Channel> DialInstance(const std::string& address);

// Whether calls on the channel fail at once because it could not connect a moment ago: whoever is
// there now is reached sooner by another one.
bool IsPausing(grpc::Channel& channel);

}  // namespace janus
