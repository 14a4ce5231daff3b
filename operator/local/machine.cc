#include "operator/local/machine.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace janus::control {
namespace {

int BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Result<int> FindPort(const std::string& host, int port) {
  const std::string where = host + ":" + std::to_string(port);
  if (port < 0 || port > 65'535) return InvalidArgument(where + ": want a port in 0..65535");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return InvalidArgument(where + ": " + gai_strerror(error));
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int failed = fd < 0 ? errno : 0;
  if (failed == 0) {
    // Like the gateway, so that connections of an earlier run do not block the port.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) failed = errno;
    if (failed == 0 && port == 0) port = BoundPort(fd);
    close(fd);
  }
  freeaddrinfo(found);
  if (failed == 0) return port;
  if (failed == EADDRINUSE) {
    return AlreadyExists(where +
                         ": the port is in use; stop what listens there or give another --port");
  }
  std::string remedy;
  if (failed == EADDRNOTAVAIL) {
    remedy = "; it is not an address of this machine: give another --host, 0.0.0.0 for all of them";
  } else if (failed == EACCES) {
    remedy = "; ports below 1024 are for privileged users: give another --port";
  }
  return InvalidArgument(where + ": cannot listen: " + std::strerror(failed) + remedy);
}

}  // namespace janus::control
