#pragma once

#include <functional>
#include <thread>

#include "common/clock.h"
#include "common/status.h"

namespace janus::dataplane {

// So long a worker may compute with weights that were overwritten in place.
inline constexpr Seconds kCheckFiles{0.25};

// Calls `on_change` on the returned thread, once, when a mapped file of weights has changed
// (model/mapped_file.h). The thread ends after that, or with its object.
std::jthread WatchMappedFiles(std::function<void(const Status&)> on_change,
                              Seconds period = kCheckFiles);

}  // namespace janus::dataplane
