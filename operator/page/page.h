#pragma once

#include <string_view>

namespace janus::control {

// page.html, compiled in: load, counts, latency, every decision and the placement of a service.
std::string_view DecisionsPage();

}  // namespace janus::control
