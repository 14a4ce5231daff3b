#include "operator/kube/server_url.h"

#include <algorithm>
#include <charconv>

namespace janus::control {
namespace {

Status Refuse(std::string_view url, std::string_view why) {
  return InvalidArgument("'" + std::string(url.substr(0, 256)) + "' " + std::string(why) +
                         "; write https://host:port");
}

}  // namespace

Result<ServerUrl> ParseServerUrl(std::string_view url) {
  ServerUrl out;
  std::string_view rest = url;
  if (const size_t end = rest.find("://"); end != rest.npos) {
    const std::string_view scheme = rest.substr(0, end);
    if (scheme != "https" && scheme != "http") return Refuse(url, "is neither https nor http");
    out.use_tls = scheme == "https";
    rest.remove_prefix(end + 3);
  }
  if (rest.find_first_of("@?# \t\r\n") != rest.npos) {
    return Refuse(url, "holds more than a host, a port and a path");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  out.path_prefix = rest.substr(slash);
  while (out.path_prefix.ends_with('/')) out.path_prefix.pop_back();
  std::string_view authority = rest.substr(0, slash);
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == authority.npos) return Refuse(url, "has no ']' after its address");
    out.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    out.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (out.host.empty()) return Refuse(url, "names no host");
  out.port = out.use_tls ? 443 : 80;
  if (!port.empty()) {
    const char* const end = port.data() + port.size();
    const auto read = std::from_chars(port.data() + 1, end, out.port);
    if (port[0] != ':' || port.size() < 2 || read.ptr != end || read.ec != std::errc() ||
        out.port < 1 || out.port > 65535) {
      return Refuse(url, "has no port in 1..65535");
    }
  }
  return out;
}

}  // namespace janus::control
