#include <CLI/CLI.hpp>
#include <fstream>
#include <map>

#include "dataplane/fetch/fetch.h"

namespace janus::dataplane {
namespace {

// Of a termination message Kubernetes keeps 4096 bytes.
constexpr size_t kMostReportBytes = 4096;

void Write(const std::string& text, const std::string& file, const Logger& log) {
  if (file.empty()) return;
  std::ofstream out(file, std::ios::trunc);
  out << text.substr(0, kMostReportBytes);
  out.close();
  if (!out) log.Warning("the report cannot be written", {{"file", file}});
}

}  // namespace

int FetchMain(int argc, char** argv) {
  StopSignals stop;
  CLI::App app{
      "janus-worker fetch downloads a model from a Hugging Face hub into a cache in the layout of "
      "Hugging Face's programs. HF_ENDPOINT names another hub, HF_TOKEN holds an access token. A "
      "later run continues an interrupted one."};
  FetchFlags flags;
  flags.revision = "main";
  app.add_option("--repo", flags.repo, "model on the hub: owner/name")->required();
  app.add_option("--revision", flags.revision, "a branch, a tag or a commit")
      ->capture_default_str();
  app.add_option("--into", flags.folder, "folder of the cache")->required();
  const std::map<std::string, FetchFor> reader = {{"attention", FetchFor::kAttention},
                                                  {"experts", FetchFor::kExperts},
                                                  {"all", FetchFor::kAll},
                                                  {"gateway", FetchFor::kGateway}};
  app.add_option("--for", flags.reader,
                 "attention or experts: the weights of this role. all: those of both. gateway: "
                 "configuration and tokenizer only")
      ->required()
      ->transform(CLI::CheckedTransformer(reader));
  app.add_option("--report", flags.report,
                 "file for the result: the commit and the bytes in JSON, or one sentence on what "
                 "went wrong. Default: none");
  app.add_option("--progress-port", flags.progress_port,
                 "port where the operator may ask over gRPC how far it is. Default: none")
      ->check(CLI::Range(1, 65535));
  CLI11_PARSE(app, argc, argv);
  const Logger log;
  const Result<hub::Settings> settings = FetchSettings(flags.folder);
  const Result<Fetched> fetched =
      settings.ok() ? Fetch(flags, *settings, log, stop) : Result<Fetched>(settings.status());
  if (fetched.ok()) {
    Write(ReportOf(*fetched), flags.report, log);
    log.Info("the model is there", {{"repo", flags.repo},
                                    {"commit", fetched->commit},
                                    {"bytes", fetched->bytes},
                                    {"bytes_fetched", fetched->bytes_fetched},
                                    {"folder", fetched->folder}});
    return 0;
  }
  // A stop is no failure: the next run continues.
  if (fetched.status().code() != StatusCode::kCancelled) {
    Write(WordsForPods(fetched.status().message()), flags.report, log);
  }
  log.Error("cannot fetch the model",
            {{"repo", flags.repo}, {"error", fetched.status().message()}});
  return 1;
}

}  // namespace janus::dataplane
