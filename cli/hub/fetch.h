#pragma once

#include <string>

#include "cli/screen.h"
#include "common/clock.h"
#include "common/status.h"
#include "common/stop_signals.h"
#include "hub/download.h"

namespace janus::cli {

// One line about a download that runs, without a line end; empty: there is nothing to show yet.
// `since` is the time since this phase began. Pure.
std::string DescribeDownload(const std::string& repo, const hub::Progress::State& state,
                             Seconds since);

// hub::FetchModel, with its progress on the screen: in place on a terminal, elsewhere a line for
// every ten percent. At the end a line says where the model lies. Cancelled: a signal came, and the
// message says that the same command continues.
Result<hub::LocalModel> FetchShown(const hub::Settings& settings, const hub::ModelId& model,
                                   const hub::DownloadOptions& options, Screen& screen,
                                   StopSignals& stop);

}  // namespace janus::cli
