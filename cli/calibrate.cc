#include "cli/calibrate.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "cli/hub/fetch.h"
#include "hub/download.h"
#include "operator/api/yaml.h"
#include "operator/kube/program.h"
#include "operator/local/processes.h"

namespace janus::cli {
namespace {

constexpr Seconds kLongest{86'400};

// The last line that a program has written: why it failed.
std::string LastLine(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Result<std::string> RunCalibration(const std::string& folder, const CalibrateOptions& options,
                                   StopSignals& stop) {
  control::Program program;
  JANUS_ASSIGN_OR_RETURN(program.command, control::FindSibling("janus-worker"));
  program.args = {"calibrate", "--model", folder, "--sum-bits", std::to_string(options.bits)};
  if (!options.prompts.empty()) {
    program.args.insert(program.args.end(), {"--prompts", options.prompts});
  }
  std::stop_source stopped;
  const std::jthread watching([&](const std::stop_token& over) {
    pollfd readable{stop.fd(), POLLIN, 0};
    constexpr int kLookUpMilliseconds = 100;
    while (!over.stop_requested() && !stopped.stop_requested()) {
      if (poll(&readable, 1, kLookUpMilliseconds) > 0) stopped.request_stop();
    }
  });
  JANUS_ASSIGN_OR_RETURN(const control::ProgramOutput output,
                         control::RunProgram(program, kLongest, stopped.get_token()));
  if (output.exit_code == 0) return output.out;
  // Its last line is progress if it was killed, most likely for memory: it holds all weights.
  const bool was_killed = output.exit_code > 128;
  const std::string why =
      was_killed ? "it was killed by signal " + std::to_string(output.exit_code - 128) +
                       "; has this machine memory for all weights of the model?"
      : output.error.empty() ? "it ended with status " + std::to_string(output.exit_code)
                             : LastLine(output.error);
  return output.exit_code == 2 ? InvalidArgument(folder + ": " + why)
                               : FailedPrecondition("janus-worker calibrate: " + why);
}

Result<std::vector<int>> ReadExponents(const std::string& yaml) {
  JANUS_ASSIGN_OR_RETURN(const control::Node root, control::ParseYaml(yaml, "the calibration"));
  const control::Node* const exchange = root.Find("exchange");
  const control::Node* const exponents =
      exchange != nullptr ? exchange->Find("sumExponents") : nullptr;
  if (exponents == nullptr) return Internal("the calibration printed no exponents");
  std::vector<int> out;
  for (const control::Node& item : exponents->items) out.push_back(static_cast<int>(item.integer));
  return out;
}

Status Calibrate(const CalibrateOptions& options, StopSignals& stop) {
  std::string folder = options.model;
  std::error_code error;
  if (!std::filesystem::exists(folder, error) && hub::LooksLikeModelId(folder)) {
    JANUS_ASSIGN_OR_RETURN(const hub::Settings settings, hub::ReadSettings());
    JANUS_ASSIGN_OR_RETURN(const hub::ModelId id, hub::ParseModelId(folder));
    Screen screen(STDERR_FILENO, isatty(STDERR_FILENO) == 1);
    JANUS_ASSIGN_OR_RETURN(const hub::LocalModel local, FetchShown(settings, id, {}, screen, stop));
    folder = local.folder;
  }
  JANUS_ASSIGN_OR_RETURN(const std::string yaml, RunCalibration(folder, options, stop));
  std::fputs(yaml.c_str(), stdout);
  return OkStatus();
}

}  // namespace janus::cli
