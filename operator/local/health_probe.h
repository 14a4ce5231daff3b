#pragma once

#include <string>

namespace janus::control {

// Whether GET `url`/health answers 200. Waits 200 ms at most: the endpoint is on this machine.
bool IsHealthy(const std::string& url);

// Where to reach an endpoint that listens at `url` from the same machine: an address that means
// every interface becomes the loopback one.
std::string LoopbackUrl(const std::string& url);

}  // namespace janus::control
