#pragma once

#include <stop_token>
#include <string>
#include <vector>

namespace janus::hub {

// The addresses of a host, in the system's order. Empty: none, or stopped. The system's resolver
// cannot be interrupted: after `stop` this returns within 0.1 s, and the C library ends the lookup
// later.
std::vector<std::string> LookUp(const std::string& host, const std::stop_token& stop);

}  // namespace janus::hub
