#include "dataplane/worker/supervise/supervise.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/log.h"
#include "dataplane/worker/supervise/supervisor.h"

namespace janus::dataplane {
namespace {

// A folder that only our user can open, unless it is there already.
Status MakeFolder(const std::string& path) {
  std::error_code error;
  if (const auto parent = std::filesystem::path(path).parent_path(); !parent.empty()) {
    std::filesystem::create_directories(parent, error);
  }
  mkdir(path.c_str(), 0700);
  if (std::filesystem::is_directory(path, error)) return OkStatus();
  return Unavailable("--run-folder " + path + ": there is no such folder, and it cannot be made");
}

Result<std::vector<ChildCommand>> CommandsOf(const Supervision& what,
                                             const std::vector<std::string>& arguments) {
  std::vector<std::string> environment;
  for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
  std::vector<ChildCommand> commands;
  for (int index = 0; index < what.instances; ++index) {
    JANUS_ASSIGN_OR_RETURN(ChildCommand command, CommandOf(index, what, arguments, environment));
    commands.push_back(std::move(command));
  }
  JANUS_RETURN_IF_ERROR(MakeFolder(what.run_folder));
  return commands;
}

}  // namespace

int Supervise(const Supervision& what, const std::string& pages,
              const std::vector<std::string>& arguments, StopSignals& stop) {
  Result<std::vector<ChildCommand>> commands = CommandsOf(what, arguments);
  if (!commands.ok()) {
    std::fprintf(stderr, "%s\n", commands.status().message().c_str());
    return 2;
  }
  const auto on_ready = [&] {
    std::printf("ready %s\n", what.listen.c_str());
    std::fflush(stdout);
  };
  Supervisor supervisor({.commands = *std::move(commands), .pages = pages, .on_ready = on_ready},
                        stop, Logger().With({{"listen", what.listen}}));
  return supervisor.Run();
}

}  // namespace janus::dataplane
