#include "cli/hub/fetch.h"

#include <unistd.h>

#include <algorithm>

#include "hub/watched_fetch.h"
#include "operator/api/quantity.h"

namespace janus::cli {
namespace {

using hub::Progress;

int64_t PercentOf(const Progress::State& state) {
  return state.bytes_total == 0 ? 100 : state.bytes_done * 100 / state.bytes_total;
}

// Shows a download as it goes.
class Display {
 public:
  Display(const std::string& repo, Screen& screen, MonotonicTime now)
      : repo_(repo), screen_(screen), began_(now), looked_(now) {}

  void Show(const Progress::State& state, MonotonicTime now) {
    if (state.phase != phase_) {
      phase_ = state.phase;
      began_ = looked_;  // it began after that
    }
    looked_ = now;
    const std::string line = DescribeDownload(repo_, state, now - began_);
    if (line.empty()) return;
    if (screen_.is_terminal()) return screen_.Block(line, ReadTerminalSize(STDOUT_FILENO));
    if (state.phase != Progress::Phase::kWeights) return;
    const int64_t step = PercentOf(state) / 10;
    const bool is_step = step > step_ && step < 10;  // the end has a line of its own
    const bool waits = state.waiting > 0 && state.waiting != waiting_;
    step_ = std::max(step, step_);
    waiting_ = state.waiting;
    if (is_step || waits) screen_.Line(line);
  }

 private:
  const std::string repo_;
  Screen& screen_;
  Progress::Phase phase_ = Progress::Phase::kAsking;
  MonotonicTime began_;  // this phase
  MonotonicTime looked_;
  int64_t step_ = -1;  // of the last line
  int waiting_ = 0;
};

}  // namespace

std::string DescribeDownload(const std::string& repo, const Progress::State& state, Seconds since) {
  if (state.phase == Progress::Phase::kAsking) return "asking the hub for " + repo;
  std::string out = "downloading " + repo + ": ";
  if (state.phase == Progress::Phase::kSmallFiles) out += "configuration and tokenizer, ";
  out += std::to_string(PercentOf(state)) + " % of " + control::FormatBytes(state.bytes_total);
  if (state.bytes_fetched > 0 && since > Seconds(0)) {
    const double rate = static_cast<double>(state.bytes_fetched) / since.count();
    out += ", " + control::FormatBytes(static_cast<int64_t>(rate)) + "/s";
  }
  const int file = std::min(state.files_done + 1, state.files_total);
  out += ", file " + std::to_string(file) + " of " + std::to_string(state.files_total);
  if (state.waiting > 0) {
    out += "; another process downloads " + std::to_string(state.waiting) + " of them";
  }
  return out;
}

Result<hub::LocalModel> FetchShown(const hub::Settings& settings, const hub::ModelId& model,
                                   const hub::DownloadOptions& options, Screen& screen,
                                   StopSignals& stop) {
  Progress progress;
  Display display(model.repo, screen, MonotonicClock::now());
  const Result<hub::LocalModel> fetched = hub::FetchWatched(
      settings, model, options, stop, progress,
      [&](const Progress::State& state) { display.Show(state, MonotonicClock::now()); });
  screen.Block("");
  if (fetched.status().code() == StatusCode::kCancelled) {
    return Cancelled("stopped; the same command continues the download of " + model.repo);
  }
  JANUS_RETURN_IF_ERROR(fetched.status());
  const hub::LocalModel& local = *fetched;
  if (!local.note.empty()) screen.Line("the hub was not reached: " + local.note);
  const int64_t bytes = progress.Look().bytes_fetched;
  screen.Line("model " + model.repo + " at commit " + local.commit.substr(0, 12) +
              (bytes > 0 && options.weights ? ", downloaded " + control::FormatBytes(bytes) : "") +
              ": " + local.folder);
  return local;
}

}  // namespace janus::cli
