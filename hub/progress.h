#pragma once

#include <cstdint>

#include "common/mutex.h"

namespace janus::hub {

// How far a download is, for another thread to show. Thread-safe.
class Progress {
 public:
  enum class Phase { kAsking, kSmallFiles, kWeights };
  struct State {
    Phase phase = Phase::kAsking;
    int files_total = 0;  // of this phase
    int files_done = 0;
    int64_t bytes_total = 0;
    int64_t bytes_done = 0;     // that lie on this machine
    int64_t bytes_fetched = 0;  // of these, fetched by this download
    int waiting = 0;            // files that another process is downloading
  };

  State Look() const {
    const MutexLock lock(mu_);
    return state_;
  }
  void Begin(Phase phase, int files, int64_t bytes) {
    const MutexLock lock(mu_);
    state_ = {};
    state_.phase = phase;
    state_.files_total = files;
    state_.bytes_total = bytes;
  }
  // Negative: bytes that were there are dropped.
  void AddHeld(int64_t bytes) {
    const MutexLock lock(mu_);
    state_.bytes_done += bytes;
  }
  void AddFetched(int64_t bytes) {
    const MutexLock lock(mu_);
    state_.bytes_done += bytes;
    state_.bytes_fetched += bytes;
  }
  void EndFile() {
    const MutexLock lock(mu_);
    ++state_.files_done;
  }
  void AddWaiting(int files) {
    const MutexLock lock(mu_);
    state_.waiting += files;
  }

 private:
  mutable Mutex mu_;
  State state_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::hub
