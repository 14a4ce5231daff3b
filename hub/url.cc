#include "hub/url.h"

#include <algorithm>
#include <charconv>

namespace janus::hub {
namespace {

constexpr size_t kMaxUrl = 4096;

Status Refuse(std::string_view url, std::string_view why) {
  std::string shown;
  for (const char c : url.substr(0, 200)) shown += c > ' ' && c <= '~' ? c : '?';
  return InvalidArgument("'" + shown + "' " + std::string(why) +
                         "; want a URL like https://host:port");
}

bool IsClean(std::string_view text) {
  return text.size() <= kMaxUrl &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

bool IsUsualPort(bool use_tls, int port) {
  return port == (use_tls ? 443 : 80);
}

}  // namespace

std::string Url::Origin() const {
  const bool is_address = host.find(':') != host.npos;
  return std::string(use_tls ? "https://" : "http://") + (is_address ? "[" + host + "]" : host) +
         (IsUsualPort(use_tls, port) ? "" : ":" + std::to_string(port));
}

Result<Url> ParseUrl(std::string_view text) {
  if (!IsClean(text)) return Refuse(text, "has spaces or control characters, or is too long");
  Url out;
  std::string_view rest = text.substr(0, text.find('#'));
  const size_t end = rest.find("://");
  const std::string_view scheme = rest.substr(0, end);
  if (end == rest.npos || (scheme != "https" && scheme != "http")) {
    return Refuse(text, "begins with neither https:// nor http://");
  }
  out.use_tls = scheme == "https";
  rest.remove_prefix(end + 3);
  const size_t path = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, path);
  out.target = rest.substr(path);
  if (!out.target.starts_with('/')) out.target.insert(0, "/");
  if (authority.find('@') != authority.npos) return Refuse(text, "has a user's name");
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == authority.npos) return Refuse(text, "has no ']' after its address");
    out.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    out.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  std::ranges::transform(out.host, out.host.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (out.host.empty()) return Refuse(text, "names no host");
  out.port = out.use_tls ? 443 : 80;
  if (port.empty()) return out;
  const char* const last = port.data() + port.size();
  const auto read = std::from_chars(port.data() + 1, last, out.port);
  if (port[0] != ':' || port.size() < 2 || read.ptr != last || read.ec != std::errc() ||
      out.port < 1 || out.port > 65535) {
    return Refuse(text, "has no port in 1..65535");
  }
  return out;
}

Result<Url> ResolveLocation(const Url& base, std::string_view location) {
  if (location.starts_with("//")) {
    return ParseUrl((base.use_tls ? "https:" : "http:") + std::string(location));
  }
  if (!location.starts_with('/')) return ParseUrl(location);
  if (!IsClean(location)) return Refuse(location, "has spaces or control characters");
  Url out = base;
  out.target = location.substr(0, location.find('#'));
  return out;
}

std::string PercentEncode(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != kPlain.npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace janus::hub
