#pragma once

#include <functional>

#include "common/stop_signals.h"
#include "hub/download.h"

namespace janus::hub {

// FetchModel on a thread of its own, for a program that shows how far it is. Calls `look` on the
// calling thread, five times a second and at the end. Ends early, with Cancelled, once `stop` came.
// Unavailable: too many files are open. Otherwise the errors of FetchModel.
Result<LocalModel> FetchWatched(const Settings& settings, const ModelId& model,
                                const DownloadOptions& options, StopSignals& stop,
                                Progress& progress,
                                const std::function<void(const Progress::State&)>& look);

}  // namespace janus::hub
