#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace janus {

// A channel to one instance, by gRPC address ("host:port", "unix:/path"), with a connection of its
// own. Pauses between calls are the caller's; an instance that comes up is found soon, and one
// whose machine is gone is noticed without traffic. Null credentials: in plain text, for Unix
// sockets in a folder that only its user can open, and services that ask for it.
std::shared_ptr<grpc::Channel> DialInstance(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr);

// Lets DialInstance's callers ping as often as they do; a server without it hangs up on them
// ("Too many pings") where a call is silent for long.
void AllowIdleCallers(grpc::ServerBuilder& builder);

// Whether calls on the channel fail at once because it could not connect a moment ago: whoever is
// there now is reached sooner by another one.
bool IsPausing(grpc::Channel& channel);

}  // namespace janus
