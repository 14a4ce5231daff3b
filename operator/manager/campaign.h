#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "common/log.h"
#include "common/mutex.h"
#include "operator/kube/leader_election.h"
#include "operator/kube/timeline.h"

namespace janus::control {

// A LeaderElection on a thread of its own. Thread-safe, but for Start, End and the destructor: the
// owner's.
class Campaign {
 public:
  // `api` and `timeline` outlive this. `on_step` is called after every step, on the thread: who
  // leads may have changed.
  Campaign(ObjectApi& api, LeaderElectionOptions options, const Timeline& timeline, Logger log,
           std::function<void()> on_step);

  // Once.
  void Start();
  // Stands no more, and gives the lease up if it was ours: blocks for a call. Whoever acts in its
  // term has to have ended.
  void End();

  // As LeaderElection has them.
  std::optional<int64_t> Term() const { return election_.Term(timeline_.Now()); }
  MonotonicTime LeadsUntil() const { return election_.LeadsUntil(); }
  // When the thread last came round; it does every few seconds.
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
