#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>

namespace janus {

// An address of this machine that only this test's process uses, so that any port is free there.
inline std::string OwnHost() {
  const auto pid = static_cast<uint32_t>(getpid());
  return "127." + std::to_string((pid >> 16 & 63) | 64) + "." + std::to_string(pid >> 8 & 255) +
         "." + std::to_string(pid & 255);
}

}  // namespace janus
