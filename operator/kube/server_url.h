#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::control {

struct ServerUrl {
  bool use_tls = true;
  std::string host;  // IPv6 without its brackets
  int port = 0;
  std::string path_prefix;  // without a trailing slash
};

// "https://host[:port][/prefix]" or "http://..."; without a scheme, as some kubeconfigs have it:
// https. InvalidArgument: another scheme, user information, a query, no host, a port outside
// 1..65535.
Result<ServerUrl> ParseServerUrl(std::string_view url);

}  // namespace janus::control
