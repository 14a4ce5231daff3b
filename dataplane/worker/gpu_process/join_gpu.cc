#include "dataplane/worker/gpu_process/join_gpu.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "common/fd.h"
#include "common/unix_address.h"
#include "dataplane/worker/gpu_process/instance_order.h"

namespace janus::dataplane {
namespace {

int Fail(const std::string& socket, const std::string& why) {
  std::fprintf(stderr, "--gpu-process %s: %s\n", socket.c_str(), why.c_str());
  return 1;
}

Result<Fd> Connect(const std::string& path) {
  const std::optional<sockaddr_un> address = UnixAddressOf(path);
  if (!address) return InvalidArgument("the path is too long");
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return Unavailable(std::string("the process of the GPU cannot be reached: ") +
                       std::strerror(errno));
  }
  return fd;
}

}  // namespace

int RunInGpuProcess(const std::string& socket, const std::string& listen,
                    const std::vector<std::string>& arguments, StopSignals& stop) {
  const Result<Fd> connection = Connect(socket);
  if (!connection.ok()) return Fail(socket, connection.status().message());
  const Status sent = SendOrder(connection->get(), listen, arguments);
  if (!sent.ok()) return Fail(socket, sent.message());
  for (;;) {
    std::array<pollfd, 2> fds = {{{connection->get(), POLLIN, 0}, {stop.fd(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) {
      std::array<char, 16> text{};
      const ssize_t bytes = recv(connection->get(), text.data(), text.size(), 0);
      int code = 0;
      if (bytes <= 0 || std::from_chars(text.data(), text.data() + bytes, code).ec != std::errc()) {
        return Fail(socket,
                    "the process of the GPU has ended; its log, or that of an instance on this "
                    "GPU, says why");
      }
      return code;
    }
    while (stop.Next()) send(connection->get(), "T", 1, MSG_NOSIGNAL);
  }
}

}  // namespace janus::dataplane
