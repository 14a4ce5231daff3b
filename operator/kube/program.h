#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace janus::control {

struct ProgramOutput {
  int exit_code = 0;  // 128 + the signal, for one that a signal ended
  std::string out;
  std::string error;  // its first 4 KiB of stderr
};

struct Program {
  std::string command;  // without a slash: looked for in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> environment;  // beside ours; goes before it
};

inline constexpr size_t kMostProgramOutputBytes = 1 << 20;

// Runs a program to its end, without input, in a process group of its own. NotFound: there is none
// of that name; ResourceExhausted: more than 1 MiB of output; DeadlineExceeded, Cancelled: it was
// killed with its group. Blocks.
Result<ProgramOutput> RunProgram(const Program& program, Seconds timeout,
                                 const std::stop_token& stop);

}  // namespace janus::control
