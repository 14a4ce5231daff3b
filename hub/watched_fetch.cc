#include "hub/watched_fetch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "common/fd.h"

namespace janus::hub {
namespace {

constexpr std::chrono::milliseconds kTick{200};

}  // namespace

Result<LocalModel> FetchWatched(const Settings& settings, const ModelId& model,
                                const DownloadOptions& options, StopSignals& stop,
                                Progress& progress,
                                const std::function<void(const Progress::State&)>& look) {
  const Fd done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done) return Unavailable("no eventfd: too many open files");
  std::optional<Result<LocalModel>> fetched;
  {
    std::jthread fetcher([&](const std::stop_token& token) {
      fetched.emplace(FetchModel(settings, model, options, progress, token));
      eventfd_write(done.get(), 1);
    });
    for (bool is_done = false; !is_done;) {
      pollfd fds[] = {{stop.fd(), POLLIN, 0}, {done.get(), POLLIN, 0}};
      poll(fds, 2, static_cast<int>(kTick.count()));
      is_done = (fds[1].revents & POLLIN) != 0;
      if (stop.Came()) {
        fetcher.request_stop();
        is_done = true;  // joined below
      }
      look(progress.Look());
    }
  }
  return *std::move(fetched);
}

}  // namespace janus::hub
