#include "dataplane/worker/changed_files.h"

#include <stop_token>
#include <utility>

#include "dataplane/model/mapped_file.h"
#include "dataplane/worker/load_pacer.h"

namespace janus::dataplane {

std::jthread WatchMappedFiles(std::function<void(const Status&)> on_change, Seconds period) {
  return std::jthread([on_change = std::move(on_change), period](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const Status changed = CheckMappedFiles(); !changed.ok()) {
        on_change(changed);
        return;
      }
      Pause(period, stop);
    }
  });
}

}  // namespace janus::dataplane
