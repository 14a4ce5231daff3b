#include "cli/explain/commands.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <utility>
#include <vector>

#include "cli/explain/explain.h"
#include "cli/explain/replay.h"
#include "cli/explain/step.h"
#include "common/pools.h"
#include "common/read_file.h"

namespace janus::cli {
namespace {

void DeclareSource(CLI::App& command, RecordsSource& source) {
  command.add_option("service", source.service,
                     "NAME or NAMESPACE/NAME, where several services are recorded");
  command.add_option("--server", source.server,
                     "http://HOST:PORT of an operator on a cluster, as kubectl port-forward opens "
                     "it. Without it: the services that janusctl serves on this machine");
}

template <class T>
void DeclareChange(CLI::App& command, const char* name, std::optional<T>& to, double factor,
                   const char* what) {
  command
      .add_option_function<T>(
          name, [&to, factor](const T& value) { to = static_cast<T>(value * factor); }, what)
      ->check(CLI::PositiveNumber)
      ->group("Decide otherwise");
}

}  // namespace

ExplainCommands::ExplainCommands(CLI::App& app) : app_(app) {
  CLI::App* explain = app.add_subcommand(
      "explain", "Show why a service has its counts: load, decisions, what else was weighed");
  DeclareSource(*explain, source_);
  explain->add_flag("--json", is_json_, "everything that is recorded, for programs");
  explain->footer(
      "On a cluster, forward the port of the operator that leads:\n\n"
      "  kubectl -n janus-system port-forward deployment/janus-operator 8082\n"
      "  janusctl explain chat --server http://127.0.0.1:8082\n");
  CLI::App* top = app.add_subcommand("top", "Show load, latency and counts of every service");
  DeclareSource(*top, source_);
  CLI::App* replay = app.add_subcommand(
      "replay", "Decide again on the recorded worlds of a service, also by another policy");
  DeclareSource(*replay, source_);
  replay->add_option("--file", file_, "records that --save wrote, instead of a service");
  replay->add_option("--save", save_, "write the records to this file");
  DeclareChange(*replay, "--tpot-milliseconds", change_.tpot_seconds, 1e-3, "target");
  DeclareChange(*replay, "--ttft-seconds", change_.ttft_seconds, 1, "target");
  DeclareChange(*replay, "--max-attention", change_.max_attention, 1, "attention instances");
  DeclareChange(*replay, "--max-experts", change_.max_experts, 1, "expert instances");
  DeclareChange(*replay, "--max-gpus", change_.max_gpus, 1, "GPUs of both roles");
  CLI::App* trace = app.add_subcommand(
      "trace", "Draw one step: what each instance does, and which ones wait for which");
  DeclareSource(*trace, source_);
  trace
      ->add_option("--layers", layers_,
                   "MoE layers in the middle of the step; 0: all recorded ones")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  trace->add_option("--pool", pool_, "the pool of the service. Default: the lowest with a step")
      ->check(CLI::Range(1, kMostPools));
  trace->add_option("--html", html_, "write a page with the drawing to this file");
  trace->add_flag("--json", is_json_, "everything that is recorded, for programs");
}

std::optional<Result<std::string>> ExplainCommands::Run() const {
  if (app_.got_subcommand("explain")) {
    Result<RecordsOf> records = ReadRecords(source_, "");
    if (!records.ok()) return records.status();
    if (is_json_) return records->text + "\n";
    return ExplainText(records->text);
  }
  if (app_.got_subcommand("top")) {
    Result<std::vector<RecordsOf>> records = ReadAllRecords(source_);
    if (!records.ok()) return records.status();
    std::vector<std::string> texts;
    for (RecordsOf& one : *records) texts.push_back(std::move(one.text));
    return TopText(texts);
  }
  if (app_.got_subcommand("replay")) return Replay();
  if (app_.got_subcommand("trace")) return Trace();
  return std::nullopt;
}

Result<std::string> ExplainCommands::Trace() const {
  constexpr int kColumns = 100;
  JANUS_ASSIGN_OR_RETURN(const RecordsOf record, ReadStep(source_, pool_));
  if (is_json_) return record.text + "\n";
  JANUS_ASSIGN_OR_RETURN(const control::StepPage page, control::ParseStepJson(record.text));
  if (!html_.empty()) {
    std::ofstream file(html_);
    file << StepHtml(page, layers_);
    file.close();
    if (!file) return InvalidArgument("--html: " + html_ + " cannot be written");
  }
  return StepText(page, layers_, kColumns);
}

Result<std::string> ExplainCommands::Replay() const {
  std::string lines;
  if (!file_.empty()) {
    constexpr int64_t kMostBytes = int64_t{256} << 20;
    JANUS_ASSIGN_OR_RETURN(lines, ReadFile(file_, kMostBytes));
  } else {
    JANUS_ASSIGN_OR_RETURN(RecordsOf records, ReadRecords(source_, "/worlds"));
    lines = std::move(records.text);
  }
  if (!save_.empty()) {
    std::ofstream file(save_);
    file << lines;
    file.close();
    if (!file) return InvalidArgument("--save: " + save_ + " cannot be written");
  }
  return ReplayText(lines, change_);
}

}  // namespace janus::cli
