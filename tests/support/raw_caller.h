#pragma once

#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "common/check.h"
#include "common/fd.h"
#include "dataplane/comm/handshake/exchange_address.h"
#include "dataplane/comm/handshake/hello.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {

// Connects to an exchange's address, as any process can. Waits at most 20 s (time_scale.h).
inline Fd DialExchange(const std::string& address) {
  const ExchangeAddress parsed = *ParseExchangeAddress(address);
  Fd fd(socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{Scaled(std::chrono::seconds(20)).count(), 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  JANUS_CHECK(connect(fd.get(), parsed.get(), parsed.bytes) == 0, strerror(errno));
  return fd;
}

// False: the other end is gone.
inline bool Say(const Fd& to, std::string_view bytes) {
  return send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}
inline std::string_view BytesOf(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

// The whole answer; nothing: the connection was closed.
inline std::optional<Hello> Answer(const Fd& from) {
  Hello hello;
  const ssize_t got = recv(from.get(), &hello, sizeof hello, MSG_WAITALL);
  if (got != static_cast<ssize_t>(sizeof hello)) return std::nullopt;
  return hello;
}

// Waits for the end of a connection. False: a byte arrived, or nothing for 20 s.
inline bool IsDisconnected(const Fd& who) {
  char byte = 0;
  const ssize_t got = recv(who.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

// Whether the connection has ended, without waiting.
inline bool IsClosed(const Fd& who) {
  char byte = 0;
  const ssize_t got = recv(who.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

}  // namespace janus::dataplane
