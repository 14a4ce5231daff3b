#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "common/log.h"
#include "common/status.h"
#include "common/stop_signals.h"
#include "dataplane/fetch/wanted_shards.h"
#include "hub/settings.h"

namespace janus::dataplane {

struct FetchFlags {
  std::string repo;      // owner/name
  std::string revision;  // a branch, a tag or a commit
  std::string folder;    // the cache
  FetchFor reader = FetchFor::kAll;
  std::string report;     // file for the result: a container's termination message; empty: none
  int progress_port = 0;  // where callers may ask how far it is (proto/fetch.proto); 0: nowhere
};

// What was fetched.
struct Fetched {
  std::string commit;
  std::string folder;         // of the snapshot
  int64_t bytes = 0;          // of the wanted weights, which lie on this machine now
  int64_t bytes_fetched = 0;  // of these, by this call
};

// The settings of the environment, with `folder` as the cache, as a container without a home has
// them. Errors: those of hub::ReadSettings.
Result<hub::Settings> FetchSettings(const std::string& folder);

// Fetches a model's small files, and of its weights what `flags.reader` reads, into the cache. Logs
// how far it is. Blocks. Errors: those of hub::FetchModel, and of a config.json that this version
// does not serve, before any weights are fetched. Without its progress port it goes on.
Result<Fetched> Fetch(const FetchFlags& flags, const hub::Settings& settings, const Logger& log,
                      StopSignals& stop);

// {"commit": "...", "bytes": N, "fetched": N}
std::string ReportOf(const Fetched& fetched);

// A message of the hub's code with fields of a MoEService and of the chart in place of variables,
// which users of a cluster do not set. Pure.
std::string WordsForPods(std::string message);

// `janus-worker fetch`: fetches, and writes the report or one sentence on what went wrong to the
// file of the report. Returns the exit status.
int FetchMain(int argc, char** argv);

}  // namespace janus::dataplane
