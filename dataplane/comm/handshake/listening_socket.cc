#include "dataplane/comm/handshake/listening_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dataplane/comm/handshake/exchange_address.h"

namespace janus::dataplane {
namespace {

constexpr std::string_view kUnix = "unix:";

std::string ErrnoText() {
  return std::strerror(errno);
}

// `address` with the port that the kernel chose.
std::string WithPort(const std::string& address, int fd) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) return address;
  const uint16_t port = bound.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  return address.substr(0, address.rfind(':') + 1) + std::to_string(ntohs(port));
}

}  // namespace

Result<std::unique_ptr<ListeningSocket>> ListeningSocket::Create(const std::string& address) {
  JANUS_ASSIGN_OR_RETURN(const ExchangeAddress parsed, ParseExchangeAddress(address));
  Fd socket(::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ResourceExhausted("exchange: socket: " + ErrnoText());
  if (parsed.is_unix()) {
    unlink(address.c_str() + kUnix.size());
  } else {
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  constexpr int kBacklog = 1024;
  if (bind(socket.get(), parsed.get(), parsed.bytes) != 0 || listen(socket.get(), kBacklog) != 0) {
    return Unavailable("exchange: cannot listen on '" + address + "': " + ErrnoText());
  }
  std::string bound = parsed.is_unix() ? address : WithPort(address, socket.get());
  return std::unique_ptr<ListeningSocket>(new ListeningSocket(std::move(socket), std::move(bound)));
}

ListeningSocket::~ListeningSocket() {
  if (is_unix()) unlink(address_.c_str() + kUnix.size());
}

bool ListeningSocket::is_unix() const {
  return address_.starts_with(kUnix);
}

}  // namespace janus::dataplane
