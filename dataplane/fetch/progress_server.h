#pragma once

#include <memory>
#include <string>

#include "common/fetch_progress.h"
#include "common/status.h"
#include "hub/progress.h"

namespace janus::dataplane {

// Of the phase that a download is in.
FetchProgress ProgressOf(const hub::Progress::State& state);

// Tells callers how far a download is (proto/fetch.proto), in plain text, until it is destroyed.
class ProgressServer {
 public:
  // `address`: host:port, or unix:/path. `progress` outlives it. Unavailable: cannot listen there.
  static Result<std::unique_ptr<ProgressServer>> Create(const std::string& address,
                                                        const hub::Progress& progress);
  virtual ~ProgressServer() = default;
};

}  // namespace janus::dataplane
