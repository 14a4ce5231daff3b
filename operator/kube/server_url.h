#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::control {

struct ServerUrl {
  bool use_tls = true;
  std::string host;  // IPv6 without its brackets
  int port = 0;
  std::string path_prefix;  // without a slash at its end
};

// "https://host[:port][/prefix]", "http://..."; kubeconfigs leave the scheme out too: https then.
// InvalidArgument: another scheme, user information, a query, no host, no port in 1..65535.
Result<ServerUrl> ParseServerUrl(std::string_view url);

}  // namespace janus::control
