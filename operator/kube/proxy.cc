#include "operator/kube/proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace janus::control {
namespace {

struct Address {
  std::array<uint8_t, 16> bytes = {};
  size_t size = 0;  // 4 or 16
};

std::optional<Address> ParseAddress(const std::string& text) {
  Address out;
  if (inet_pton(AF_INET, text.c_str(), out.bytes.data()) == 1) {
    out.size = 4;
  } else if (inet_pton(AF_INET6, text.c_str(), out.bytes.data()) == 1) {
    out.size = 16;
  } else {
    return std::nullopt;
  }
  return out;
}

bool HasPrefix(const Address& address, const Address& range, size_t bits) {
  if (address.size != range.size || bits > 8 * range.size) return false;
  for (size_t i = 0; i < bits; ++i) {
    const uint8_t bit = static_cast<uint8_t>(0x80 >> (i % 8));
    if ((address.bytes[i / 8] & bit) != (range.bytes[i / 8] & bit)) return false;
  }
  return true;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  const std::optional<Address> address = ParseAddress(host);
  if (!address) return false;
  if (address->size == 4) return address->bytes[0] == 127;
  return HasPrefix(*address, *ParseAddress("::1"), 128);
}

std::string Small(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// The entries of a list, in lower case and trimmed.
std::vector<std::string> Entries(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view one = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const size_t begin = one.find_first_not_of(" \t");
    if (begin == one.npos) continue;
    out.push_back(Small(one.substr(begin, one.find_last_not_of(" \t") + 1 - begin)));
  }
  return out;
}

// True if an entry of NO_PROXY matches the host.
bool Means(std::string entry, const std::string& host, int port) {
  if (entry == "*") return true;
  const std::optional<Address> address = ParseAddress(host);
  if (const size_t slash = entry.find('/'); slash != entry.npos) {
    const std::optional<Address> range = ParseAddress(entry.substr(0, slash));
    size_t bits = 0;
    const char* const end = entry.data() + entry.size();
    const auto read = std::from_chars(entry.data() + slash + 1, end, bits);
    const bool is_range = range && read.ec == std::errc() && read.ptr == end;
    return is_range && address && HasPrefix(*address, *range, bits);
  }
  std::string wanted_port;
  const size_t bracket = entry.find(']');
  if (entry.starts_with('[') && bracket != entry.npos) {
    if (entry.size() > bracket + 1 && entry[bracket + 1] == ':') {
      wanted_port = entry.substr(bracket + 2);
    }
    entry = entry.substr(1, bracket - 1);
  } else if (std::count(entry.begin(), entry.end(), ':') == 1) {
    wanted_port = entry.substr(entry.find(':') + 1);
    entry.resize(entry.find(':'));
  }
  if (!wanted_port.empty() && wanted_port != std::to_string(port)) return false;
  if (const std::optional<Address> one = ParseAddress(entry)) {
    return address && HasPrefix(*address, *one, 8 * one->size);
  }
  if (entry.starts_with("*.")) entry.erase(0, 1);
  if (entry.empty() || address) return false;
  if (entry.starts_with('.')) return host.ends_with(entry);
  return host == entry || host.ends_with("." + entry);
}

}  // namespace

Status RefuseProxy(const ClusterConfig& config,
                   FunctionRef<std::string(const std::string& name)> variable) {
  const std::string host = Small(config.host);
  if (host.starts_with(kUnixHost) || IsLoopback(host)) return OkStatus();
  std::string name;
  const auto value = [&](const std::string& capitals) {
    for (const std::string& one : {capitals, Small(capitals)}) {
      name = one;
      if (std::string found = variable(one); !found.empty()) return found;
    }
    return std::string();
  };
  for (const std::string& entry : Entries(value("NO_PROXY"))) {
    if (Means(entry, host, config.port)) return OkStatus();
  }
  if (value(config.use_tls ? "HTTPS_PROXY" : "HTTP_PROXY").empty()) return OkStatus();
  // Do not show its value, which may contain a password.
  return FailedPrecondition(config.origin + ": " + name + " is set, and the API server at '" +
                            config.host +
                            "' would be called past it: proxies are not supported; add '" +
                            config.host + "' to NO_PROXY, or unset " + name);
}

}  // namespace janus::control
