#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "common/status.h"

namespace janus::control {

// The system call `call` failed for lack of a resource: the reason (an errno) and the remedy, if
// known.
inline Status Exhausted(const std::string& call, int error) {
  std::string message = call + ": " + std::strerror(error);
  if (error == EMFILE) message += "; raise the limit of open files (ulimit -n)";
  if (error == ENFILE) message += "; raise the machine's limit of open files (sysctl fs.file-max)";
  if (error == EAGAIN) message += "; raise the limit of processes (ulimit -u, a container's pids)";
  return ResourceExhausted(std::move(message));
}

}  // namespace janus::control
