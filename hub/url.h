#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::hub {

// Where a request goes. Host and target have printable ASCII only, and no spaces.
struct Url {
  bool use_tls = true;
  std::string host;  // IPv6 without its brackets
  int port = 443;
  std::string target;  // path and query, percent-encoded; begins with '/'

  // "https://host:port", for comparisons and messages. The usual port is left out.
  std::string Origin() const;
  std::string Text() const { return Origin() + target; }
};

// Reads "https://host[:port][/path][?query]" or "http://...". A fragment is dropped.
// InvalidArgument: another scheme, user information, no host, a port outside 1..65535, control
// characters or spaces, more than 4096 characters.
Result<Url> ParseUrl(std::string_view text);

// The value of a header Location in the reply to `base`: a URL, or a path on the same host.
Result<Url> ResolveLocation(const Url& base, std::string_view location);

// Encodes every byte except letters, digits, '-', '_', '.' and '~'.
std::string PercentEncode(std::string_view text);

}  // namespace janus::hub
