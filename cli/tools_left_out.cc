#include <CLI/CLI.hpp>
#include <string>

#include "cli/tools.h"

namespace janus::cli {
namespace {

constexpr const char* kLeftOut[] = {"load", "plan", "place", "simulate"};

}  // namespace

struct Tools::Options {};

Tools::Tools(CLI::App& app) : app_(app) {
  for (const char* name : kLeftOut) {
    CLI::App* command = app.add_subcommand(name, "Left out of this build");
    command->allow_extras();
    command->set_help_flag();
  }
}

Tools::~Tools() = default;

std::optional<Status> Tools::Run(StopSignals&) {
  for (const char* name : kLeftOut) {
    if (!app_.got_subcommand(name)) continue;
    return FailedPrecondition(
        std::string(name) +
        ": this janusctl was built for serving alone; build one with every command: "
        "cmake --preset dev && ninja -C build/dev janusctl");
  }
  return std::nullopt;
}

}  // namespace janus::cli
