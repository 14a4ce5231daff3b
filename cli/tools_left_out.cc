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
    CLI::App* command = app.add_subcommand(name, "Not in this build of janusctl");
    command->allow_extras();
    command->set_help_flag();
  }
}

Tools::~Tools() = default;

std::optional<Status> Tools::Run(StopSignals&) {
  for (const char* name : kLeftOut) {
    if (!app_.got_subcommand(name)) continue;
    return FailedPrecondition(std::string(name) +
                              ": this build of janusctl only serves models; build one with every "
                              "command: cmake --preset dev && ninja -C build/dev janusctl");
  }
  return std::nullopt;
}

}  // namespace janus::cli
