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
  int exit_code = 0;  // 128 + the signal if a signal ended it
  std::string out;
  std::string error;  // the first 4 KiB of stderr
};

struct Program {
  std::string command;  // without a slash: looked for in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours, and overrides it
};

inline constexpr size_t kMostProgramOutputBytes = 1 << 20;

// Runs a program to its end, without input, in a separate process group. NotFound: no program of
// that name; ResourceExhausted: more than 1 MiB of output; DeadlineExceeded, Cancelled: it was
// killed with its group. Blocks.
Result<ProgramOutput> RunProgram(const Program& program, Seconds timeout,
                                 const std::stop_token& stop);

}  // namespace janus::control
