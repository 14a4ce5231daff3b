#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

namespace janus {

// When a silent peer counts as lost: it does not answer a ping, which is sent after `silence`,
// within `answer`.
struct PeerLost {
  std::chrono::milliseconds silence{10'000};
  std::chrono::milliseconds answer{5'000};
};
// For streams that any other peer can continue at no cost: if the peer was only slow, nothing is
// lost.
inline constexpr PeerLost kPeerLostToWatch{std::chrono::milliseconds(1'000),
                                           std::chrono::milliseconds(1'000)};

// Makes a channel to one instance, by gRPC address ("host:port", "unix:/path"), with its own
// connection. It connects soon after the instance has started, and detects a lost machine even
// without traffic. The caller decides how long it pauses between calls. Null credentials: plain
// text, for Unix sockets in a folder that only their user can open, and for services that ask for
// it.
std::shared_ptr<grpc::Channel> DialInstance(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr,
    const PeerLost& lost = {});

// Permits the frequent pings of DialInstance's channels. Without it a server closes such a
// connection ("Too many pings") when a call is silent for long.
void AllowIdleCallers(grpc::ServerBuilder& builder);

// Whether calls on the channel fail at once because a recent connection attempt failed. A new
// channel reaches a newly started instance sooner.
bool IsPausing(grpc::Channel& channel);

}  // namespace janus
