#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace janus {

// Makes a channel to one instance, by gRPC address ("host:port", "unix:/path"), with its own
// connection. It connects soon after the instance has started, and detects a lost machine even
// without traffic. The caller decides how long it pauses between calls. Null credentials: plain
// text, for Unix sockets in a folder that only their user can open, and for services that ask for
// it.
std::shared_ptr<grpc::Channel> DialInstance(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr);

// Permits the frequent pings of DialInstance's channels. Without it a server closes such a
// connection ("Too many pings") when a call is silent for long.
void AllowIdleCallers(grpc::ServerBuilder& builder);

// Whether calls on the channel fail at once because a recent connection attempt failed. A new
// channel reaches a newly started instance sooner.
bool IsPausing(grpc::Channel& channel);

}  // namespace janus
