#include "dataplane/fetch/fetch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/model/config.h"
#include "dataplane/fetch/progress_server.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/names.h"
#include "hub/watched_fetch.h"

namespace janus::dataplane {
namespace {

// The pause between two lines about a download that goes on.
constexpr std::chrono::seconds kLine{10};

// Logs a download as it goes: every phase, every ten percent, and now and then.
class Narrator {
 public:
  Narrator(const Logger& log, MonotonicTime now) : log_(log), told_(now) {}

  void Tell(const hub::Progress::State& state, MonotonicTime now) {
    if (state.phase == hub::Progress::Phase::kAsking) return;
    const int64_t percent =
        state.bytes_total == 0 ? 100 : state.bytes_done * 100 / state.bytes_total;
    const bool is_new = state.phase != phase_ || percent / 10 > step_;
    if (!is_new && (now - told_ < kLine || state.bytes_done == bytes_)) return;
    phase_ = state.phase;
    step_ = percent / 10;
    bytes_ = state.bytes_done;
    told_ = now;
    log_.Info(state.phase == hub::Progress::Phase::kWeights ? "downloading weights"
                                                            : "downloading configuration",
              {{"percent", percent},
               {"bytes", state.bytes_done},
               {"of_bytes", state.bytes_total},
               {"files", state.files_done},
               {"of_files", state.files_total},
               {"files_of_other_processes", state.waiting}});
  }

 private:
  const Logger& log_;
  hub::Progress::Phase phase_ = hub::Progress::Phase::kAsking;
  int64_t step_ = -1;
  int64_t bytes_ = -1;
  MonotonicTime told_;
};

int64_t BytesOf(const std::string& folder, const std::set<std::string>& files) {
  int64_t out = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(folder + "/" + file, error);
    if (!error) out += static_cast<int64_t>(size);
  }
  return out;
}

}  // namespace

Result<hub::Settings> FetchSettings(const std::string& folder) {
  return hub::ReadSettings([&](const char* name) -> std::string {
    const std::string_view asked = name;
    if (asked == "HF_HUB_CACHE") return folder;
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
    return asked == "HOME" ? "/" : "";
  });
}

Result<Fetched> Fetch(const FetchFlags& flags, const hub::Settings& settings, const Logger& log,
                      StopSignals& stop) {
  const hub::ModelId model{flags.repo, flags.revision};
  JANUS_RETURN_IF_ERROR(hub::CheckRepo(model.repo));
  JANUS_RETURN_IF_ERROR(hub::CheckRevision(model.revision));
  std::set<std::string> wanted;
  hub::DownloadOptions options;
  options.weights = flags.reader != FetchFor::kGateway;
  options.judge = [&](const std::string& folder) -> Status {
    JANUS_ASSIGN_OR_RETURN(const ModelDescription description, LoadModelConfig(folder));
    JANUS_ASSIGN_OR_RETURN(wanted, WantedShards(folder, description, flags.reader));
    return OkStatus();
  };
  // A commit that lies there whole is used without the hub.
  if (hub::IsCommit(model.revision)) {
    static_cast<void>(
        options.judge(hub::Cache(settings.cache).SnapshotFolder(model.repo, model.revision)));
  }
  // Before the index is there, every file may be wanted.
  options.wants = [&](const std::string& name) { return wanted.empty() || wanted.contains(name); };
  hub::Progress progress;
  std::unique_ptr<ProgressServer> server;
  if (flags.progress_port != 0) {
    auto made = ProgressServer::Create("[::]:" + std::to_string(flags.progress_port), progress);
    if (made.ok()) {
      server = *std::move(made);
    } else {
      log.Warning("the operator cannot ask how far this is", {{"why", made.status().message()}});
    }
  }
  Narrator narrator(log, MonotonicClock::now());
  JANUS_ASSIGN_OR_RETURN(const hub::LocalModel local,
                         hub::FetchWatched(settings, model, options, stop, progress,
                                           [&](const hub::Progress::State& state) {
                                             narrator.Tell(state, MonotonicClock::now());
                                           }));
  if (!local.note.empty()) log.Warning("the hub was not reached", {{"why", local.note}});
  return Fetched{local.commit, local.folder, BytesOf(local.folder, wanted),
                 options.weights ? progress.Look().bytes_fetched : 0};
}

std::string WordsForPods(std::string message) {
  constexpr std::pair<std::string_view, std::string_view> kFields[] = {
      {", or set HF_HUB_OFFLINE=1 to use what the cache holds", ""},
      {"HF_TOKEN", "spec.model.source.huggingFace.tokenSecretRef"},
      {"HF_HUB_CACHE", "spec.model.cache"},
      {"HF_ENDPOINT", "hub.endpoint of the chart"}};
  for (const auto& [variable, field] : kFields) {
    for (size_t at = 0; (at = message.find(variable, at)) != message.npos; at += field.size()) {
      message.replace(at, variable.size(), field);
    }
  }
  return message;
}

std::string ReportOf(const Fetched& fetched) {
  return R"({"commit":")" + fetched.commit + R"(","bytes":)" + std::to_string(fetched.bytes) +
         R"(,"fetched":)" + std::to_string(fetched.bytes_fetched) + "}";
}

}  // namespace janus::dataplane
