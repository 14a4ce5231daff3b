#pragma once

#include <sys/socket.h>

#include <string>

#include "common/status.h"

namespace janus::dataplane {

// Where an instance's peers find it, in the form of the socket functions.
struct ExchangeAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
};

// "unix:/path", or "tcp:1.2.3.4:port" and "tcp:[::1]:port". InvalidArgument: anything else.
Result<ExchangeAddress> ParseExchangeAddress(const std::string& text);

// The listeners of one instance, by the peers that dial them (Instance::exchange_address). Both are
// the same if the instance has one listener.
struct ExchangeAddresses {
  std::string network;  // for peers that do not share memory with it
  std::string memory;   // for peers that do: descriptors in their HELLOs need a Unix socket
};

// "ADDRESS", or "tcp:...,unix:/path": a TCP address and a Unix socket. InvalidArgument: anything
// else.
Result<ExchangeAddresses> ParseExchangeAddresses(const std::string& text);

// For either end of a TCP connection: sends small messages at once (no Nagle delay), and notices
// after 10 s that the other machine has vanished.
void TuneTcp(int fd);

}  // namespace janus::dataplane
