#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "common/mutex.h"
#include "operator/kube/timeline.h"
#include "operator/local/store/tables.h"

namespace janus::control {

struct LocalStoreOptions {
  TableLimits limits;
  // For uids and generated names; the same seed gives the same sequence.
  uint64_t seed = 1;
  std::vector<std::string> namespaces = {"default"};  // that exist from the start
};

// The objects of an API server, in this process, shared by the clients of store_client.h. Holds the
// lock, wakes watches and removes expired Events. Thread-safe.
class LocalStore {
 public:
  // What a call may use while it holds the lock.
  struct Session {
    Tables& tables;
    std::mt19937_64& random;
    WallTime now;
  };

  // `timeline` outlives this, and this outlives all clients.
  LocalStore(LocalStoreOptions options, const Timeline& timeline);

  const Timeline& timeline() const { return timeline_; }

  // Runs `act` under the lock, and wakes the watches if it changed anything.
  void Do(FunctionRef<void(Session&)> act);

  // Blocks until the version exceeds `version`, until `until`, or until `stop`.
  void WaitBeyond(int64_t version, MonotonicTime until, const std::stop_token& stop);

 private:
  // An object of a kind with a time to live: expires unless it was written again since.
  struct Expiry {
    WallTime when;
    Tables::Place place;
    int64_t version;
  };

  void RemoveExpired(WallTime now) JANUS_REQUIRES(mu_);
  void NoteExpiries(int64_t since, WallTime now) JANUS_REQUIRES(mu_);

  const Timeline& timeline_;

  Mutex mu_;
  Tables tables_ JANUS_GUARDED_BY(mu_);
  std::mt19937_64 random_ JANUS_GUARDED_BY(mu_);
  std::deque<Expiry> expiries_ JANUS_GUARDED_BY(mu_);             // in the order written
  std::vector<std::stop_source*> waiting_ JANUS_GUARDED_BY(mu_);  // one per waiting watch
};

}  // namespace janus::control
