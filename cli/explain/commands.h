#pragma once

#include <optional>
#include <string>

#include "cli/explain/records_source.h"
#include "common/status.h"
#include "operator/records/replay.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace janus::cli {

// janusctl explain, top, replay and trace: what the operator decided for a service, and why, and
// how its steps go. Confined to one thread.
class ExplainCommands {
 public:
  // Declares the commands. `app` must outlive this.
  explicit ExplainCommands(CLI::App& app);
  // Runs the command that was parsed and returns the text to print; nullopt: it was none of these.
  std::optional<Result<std::string>> Run() const;

 private:
  Result<std::string> Replay() const;
  Result<std::string> Trace() const;

  CLI::App& app_;
  RecordsSource source_;
  bool is_json_ = false;
  std::string file_;  // of recorded lines, instead of a source
  std::string save_;
  control::ReplayChange change_;
  int layers_ = 2;
  int pool_ = 0;  // 0: the lowest that has a step
  std::string html_;
};

}  // namespace janus::cli
