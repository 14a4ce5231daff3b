#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "common/status.h"
#include "hub/names.h"
#include "hub/progress.h"
#include "hub/settings.h"

namespace janus::hub {

struct DownloadOptions {
  // Called when the small files are in `folder`, before any weights are fetched; its error ends the
  // download. Empty: every model is good.
  std::function<Status(const std::string& folder)> judge;
  // Which files of weights are wanted, by name: a worker of one role reads some only. Empty: all.
  // It may read the folder that `judge` got.
  std::function<bool(const std::string& name)> wants;
  bool weights = true;  // false: only the small files
  int threads = 4;      // files at a time; >= 1
};

// A model in the cache.
struct LocalModel {
  std::string folder;  // of its snapshot: a checkpoint's folder
  std::string commit;
  // Of the wanted weights. Both are 0 if the hub was not asked.
  int64_t weight_bytes = 0;
  int64_t weight_bytes_held = 0;  // before the download
  std::string note;  // why the cache was used without the hub, if the hub was wanted; else empty
};

// Downloads what a server reads of a model into the cache of `settings`, unless it is there, and
// returns its folder. Blocks; runs up to options.threads threads, which have ended when it returns.
// An interrupted download continues where it was, in any process. Several processes may download
// the same model at once: each file is fetched by one of them.
//
// The hub is not asked if settings.offline is set, or if the revision is a commit that the cache
// holds whole. If the hub cannot be reached, the revision's commit in the cache is used, if it is
// whole.
//
// Errors are those of HubClient and BlobFile, and judge's. NotFound: the cache lacks files, and the
// hub may not be asked. ResourceExhausted: the disk has too little space for the weights.
// Cancelled: by `stop`.
Result<LocalModel> FetchModel(const Settings& settings, const ModelId& model,
                              const DownloadOptions& options, Progress& progress,
                              const std::stop_token& stop);

}  // namespace janus::hub
