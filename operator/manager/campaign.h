#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "common/log.h"
#include "common/mutex.h"
#include "operator/kube/leader_election.h"
#include "operator/kube/timeline.h"

namespace janus::control {

// Runs a LeaderElection on a separate thread. Thread-safe, except Start, End and the destructor,
// which only the owner calls.
class Campaign {
 public:
  // `api` and `timeline` outlive this. `on_step` is called on the thread after every step, since
  // the leader may have changed.
  Campaign(ObjectApi& api, LeaderElectionOptions options, const Timeline& timeline, Logger log,
           std::function<void()> on_step);

  // Call once.
  void Start();
  // Stops the candidacy and releases the lease if we hold it; blocks for one call. End all work of
  // our term before.
  void End();

  // From LeaderElection.
  std::optional<int64_t> Term() const { return election_.Term(timeline_.Now()); }
  MonotonicTime LeadsUntil() const { return election_.LeadsUntil(); }
  // When the thread finished its last step; it makes one every few seconds.
  MonotonicTime last_step() const;

 private:
  void Run(const std::stop_token& stop);

  const Timeline& timeline_;
  const Logger log_;
  const std::function<void()> on_step_;
  LeaderElection election_;
  mutable Mutex mu_;
  MonotonicTime last_step_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
