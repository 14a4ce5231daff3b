#pragma once

#include <string>

#include "common/status.h"

namespace janus::control {

// The variables that say where things of this user go. This is the one place that reads them.
struct Environment {
  std::string runtime_dir;  // $XDG_RUNTIME_DIR; empty: none
  std::string temp_dir;     // $TMPDIR, else /tmp
  std::string state_home;   // $XDG_STATE_HOME, else ~/.local/state; empty: no home either
};

Environment ReadEnvironment();

// <state_home>/janus/<service>, made with its parents, mode 0700.
// FailedPrecondition: no home, or it cannot be written; says which variable to set.
Result<std::string> MakeStateFolder(const Environment& environment, const std::string& service);

}  // namespace janus::control
