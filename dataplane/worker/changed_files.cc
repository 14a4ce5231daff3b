#include "dataplane/worker/changed_files.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#include "dataplane/model/mapped_file.h"

namespace janus::dataplane {

std::jthread WatchMappedFiles(std::function<void(const Status&)> on_change, Seconds period) {
  return std::jthread([on_change = std::move(on_change), period](const std::stop_token& stop) {
    std::mutex mu;
    std::condition_variable_any never;
    std::unique_lock lock(mu);
    while (!stop.stop_requested()) {
      if (const Status changed = CheckMappedFiles(); !changed.ok()) {
        on_change(changed);
        return;
      }
      never.wait_for(lock, stop, period, [] { return false; });
    }
  });
}

}  // namespace janus::dataplane
