// The commands that do not serve: load, plan, place, simulate.
//
// A build with JANUS_SERVE_ONLY compiles tools_left_out.cc in place of tools.cc. scripts/quickstart
// then need not wait for the planner and the simulator.

#pragma once

#include <memory>
#include <optional>

#include "common/status.h"
#include "common/stop_signals.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace janus::cli {

// Confined to one thread.
class Tools {
 public:
  // Declares the commands. `app` must outlive this.
  explicit Tools(CLI::App& app);
  ~Tools();

  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;

  // Runs the command that was parsed; nullopt if it was none of these. If this build leaves the
  // command out, FailedPrecondition says how to build it.
  std::optional<Status> Run(StopSignals& stop);

 private:
  struct Options;
  CLI::App& app_;
  std::unique_ptr<Options> options_;
};

}  // namespace janus::cli
