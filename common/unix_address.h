#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <optional>
#include <string>

namespace janus {

inline constexpr size_t kMostUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

// The address of a Unix socket. Nothing: the path is empty, or has more than kMostUnixPathBytes.
inline std::optional<sockaddr_un> UnixAddressOf(const std::string& path) {
  if (path.empty() || path.size() > kMostUnixPathBytes) return std::nullopt;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace janus
