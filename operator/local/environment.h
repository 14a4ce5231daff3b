#pragma once

#include <string>

#include "common/status.h"

namespace janus::control {

// Environment variables with this user's folders. Only this file reads them.
struct Environment {
  std::string runtime_dir;  // $XDG_RUNTIME_DIR; empty: not set
  std::string temp_dir;     // $TMPDIR; default /tmp
  std::string state_home;   // $XDG_STATE_HOME; default ~/.local/state; empty: no home folder
};

Environment ReadEnvironment();

// Creates <state_home>/janus/<service> with its parents, mode 0700. FailedPrecondition: no home
// folder, or not writable; says which variable to set.
Result<std::string> MakeStateFolder(const Environment& environment, const std::string& service);

}  // namespace janus::control
