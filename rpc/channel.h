#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace janus {

// A channel to one instance, by gRPC address ("host:port", "unix:/path"), with a connection of its
// own. It finds an instance soon after that has started, and notices without traffic that a machine
// is gone. The caller decides how long it pauses between calls. Null credentials: plain text, for
// Unix sockets in a folder that only their user can open, and for services that ask for it.
std::shared_ptr<grpc::Channel> DialInstance(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr);

// Lets the channels of DialInstance ping as often as they do. A server without it closes such a
// connection ("Too many pings") when a call is silent for long.
void AllowIdleCallers(grpc::ServerBuilder& builder);

// Whether calls on the channel fail at once because it could not connect a moment ago. A new
// channel reaches an instance that has started since sooner.
bool IsPausing(grpc::Channel& channel);

}  // namespace janus
