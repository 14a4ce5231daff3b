#include "operator/local/environment.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace janus::control {
namespace {

// XDG's rule: ignore a relative path in these variables.
std::string AbsoluteVariable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string Home() {
  std::string home = AbsoluteVariable("HOME");
  if (!home.empty()) return home;
  const passwd* user = getpwuid(getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

}  // namespace

Environment ReadEnvironment() {
  Environment out;
  out.runtime_dir = AbsoluteVariable("XDG_RUNTIME_DIR");
  out.temp_dir = AbsoluteVariable("TMPDIR");
  if (out.temp_dir.empty()) out.temp_dir = "/tmp";
  out.state_home = AbsoluteVariable("XDG_STATE_HOME");
  if (out.state_home.empty()) {
    const std::string home = Home();
    if (!home.empty()) out.state_home = home + "/.local/state";
  }
  return out;
}

Result<std::string> MakeStateFolder(const Environment& environment, const std::string& service) {
  if (environment.state_home.empty()) {
    return FailedPrecondition(
        "no folder for logs: neither XDG_STATE_HOME nor HOME is set; set XDG_STATE_HOME");
  }
  const std::string path = environment.state_home + "/janus/" + service;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || access(path.c_str(), W_OK | X_OK) != 0) {
    return FailedPrecondition(path + ": cannot be written" +
                              (error ? " (" + error.message() + ")" : "") +
                              "; set XDG_STATE_HOME to a folder that can");
  }
  // Logs contain paths and addresses, so only their user may read them.
  chmod(path.c_str(), 0700);
  return path;
}

}  // namespace janus::control
