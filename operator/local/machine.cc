#include "operator/local/machine.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "common/read_file.h"

namespace janus::control {
namespace {

std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  if (!(in >> value)) return std::nullopt;  // "max" is no number: no limit
  return value;
}

// What the limits of our cgroup (version 2) and of those above it leave.
std::optional<int64_t> CgroupRoom() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  std::optional<int64_t> room;
  while (std::getline(in, line)) {
    if (!line.starts_with("0::")) continue;
    std::string group = line.substr(3);
    while (true) {
      const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
      const auto limit = ReadNumber(folder + "/memory.max");
      const auto used = ReadNumber(folder + "/memory.current");
      if (limit && used)
        room = std::min(room.value_or(INT64_MAX), std::max<int64_t>(*limit - *used, 0));
      if (group.empty() || group == "/") break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  return room;
}

}  // namespace

Result<int64_t> ParseMemAvailable(const std::string& meminfo) {
  std::istringstream in(meminfo);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string name;
    int64_t kilobytes = 0;
    if (fields >> name >> kilobytes && name == "MemAvailable:") return kilobytes * 1024;
  }
  return NotFound("/proc/meminfo: no MemAvailable");
}

Result<int64_t> AvailableMemoryBytes() {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/meminfo"));
  JANUS_ASSIGN_OR_RETURN(const int64_t available, ParseMemAvailable(text));
  return std::min(available, CgroupRoom().value_or(INT64_MAX));
}

Status CheckCanListen(const std::string& host, int port) {
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
    // As the gateway does: connections of a run just ended do not hold the port.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) failed = errno;
    close(fd);
  }
  freeaddrinfo(found);
  if (failed == 0) return OkStatus();
  if (failed == EADDRINUSE) {
    return AlreadyExists(where +
                         ": the port is in use; stop what listens there or give another --port");
  }
  return InvalidArgument(where + ": cannot listen: " + std::strerror(failed));
}

}  // namespace janus::control
