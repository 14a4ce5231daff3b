#include "dataplane/comm/handshake/exchange_address.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "common/unix_address.h"

namespace janus::dataplane {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTcp = "tcp:";

Result<ExchangeAddress> UnixAddress(const std::string& path) {
  const std::optional<sockaddr_un> address = UnixAddressOf(path);
  if (!address) {
    return InvalidArgument("exchange address: socket path '" + path +
                           "': " + std::to_string(path.size()) + " bytes, want 1 to " +
                           std::to_string(kMostUnixPathBytes));
  }
  ExchangeAddress out;
  std::memcpy(&out.storage, &*address, sizeof *address);
  out.bytes = sizeof *address;
  return out;
}

// Accepts numeric addresses only: looking up a name would block.
Result<ExchangeAddress> TcpAddress(const std::string& text) {
  const Status bad = InvalidArgument("exchange address 'tcp:" + text +
                                     "': want tcp:<IPv4>:<port> or tcp:[<IPv6>]:<port>");
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad;
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end) return bad;
  std::string host = text.substr(0, colon);
  ExchangeAddress out;
  if (host.starts_with('[') && host.ends_with(']')) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &address.sin6_addr) != 1) return bad;
    std::memcpy(&out.storage, &address, sizeof address);
    out.bytes = sizeof address;
    return out;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return bad;
  std::memcpy(&out.storage, &address, sizeof address);
  out.bytes = sizeof address;
  return out;
}

}  // namespace

Result<ExchangeAddress> ParseExchangeAddress(const std::string& text) {
  if (text.starts_with(kUnix)) return UnixAddress(text.substr(kUnix.size()));
  if (text.starts_with(kTcp)) return TcpAddress(text.substr(kTcp.size()));
  return InvalidArgument("exchange address '" + text + "': want unix:/path or tcp:host:port");
}

Result<ExchangeAddresses> ParseExchangeAddresses(const std::string& text) {
  // The path of a Unix socket may contain a comma, a TCP address does not.
  const size_t comma = text.starts_with(kTcp) ? text.find(',') : std::string::npos;
  ExchangeAddresses out{text.substr(0, comma),
                        text.substr(comma == std::string::npos ? 0 : comma + 1)};
  JANUS_RETURN_IF_ERROR(ParseExchangeAddress(out.network).status());
  JANUS_ASSIGN_OR_RETURN(const ExchangeAddress memory, ParseExchangeAddress(out.memory));
  if (comma != std::string::npos && !memory.is_unix()) {
    return InvalidArgument("exchange address '" + text +
                           "': the second address must be that of a Unix socket, unix:/path");
  }
  return out;
}

void TuneTcp(int fd) {
  const int on = 1, idle = 5, interval = 1, patience_ms = 10'000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
}

}  // namespace janus::dataplane
