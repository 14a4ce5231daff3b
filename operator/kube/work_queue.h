#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/status.h"
#include "operator/kube/metrics.h"
#include "operator/kube/object.h"

namespace janus::control {

struct WorkQueueOptions {
  size_t capacity = 100'000;     // keys known at a time: ready, delayed or at a worker; >= 1
  Seconds first_backoff{0.005};  // after a key's first failure; doubled after each further one,
  Seconds longest_backoff{300};  // up to this
  WorkQueueMetrics* metrics = nullptr;  // outlives the queue; null: none
};

// The objects that a reconcile loop has to look at. A key carries no information on what happened,
// so the work depends on the current state only.
//
// Invariants:
// (1) A key waits at most once, however often it is added.
// (2) A key is at one worker at most. If it is added meanwhile, it waits again once that worker is
//     done.
// (3) Ready keys leave in the order in which they became ready, so none starves.
// (4) A delayed key does not leave before its earliest time. Add makes it ready at once.
//
// The caller passes the time. Thread-safe; no call blocks.
class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options);

  // ResourceExhausted: the queue is full; the caller lists all objects again later.
  Status Add(const ObjectKey& key, MonotonicTime now);
  // The key becomes ready at `when`.
  Status AddAt(const ObjectKey& key, MonotonicTime when);

  // The next key for a worker. Call Done (or Retry) when the work ends.
  std::optional<ObjectKey> TryTake(MonotonicTime now);
  // When the earliest delayed key becomes ready.
  std::optional<MonotonicTime> NextDeadline() const;

  // The worker has finished the key.
  void Done(const ObjectKey& key, MonotonicTime now);
  // Replaces Done after a failure: the key waits longer after each one, until Forget. Never
  // refused.
  void Retry(const ObjectKey& key, MonotonicTime now);
  // The key's work succeeded: resets its failures.
  void Forget(const ObjectKey& key);

  // Updates the gauges of keys at workers, which grow with time. Call it about every second.
  void Measure(MonotonicTime now) const;

  // Keys that wait, including delayed ones.
  size_t depth() const;
  // How often Retry was called for the key since Forget.
  int failures(const ObjectKey& key) const;

 private:
  struct State {
    bool is_ready = false;               // in ready_
    bool is_working = false;             // with a worker
    bool is_again = false;               // added while with a worker
    std::optional<MonotonicTime> later;  // in later_
    int failures = 0;
    MonotonicTime since;  // since when it is ready or at a worker
    bool IsIdle() const { return !is_ready && !is_working && !later && failures == 0; }
  };

  Status Reserve(const ObjectKey& key) JANUS_REQUIRES(mu_);
  void MakeReady(const ObjectKey& key, State& state, MonotonicTime since) JANUS_REQUIRES(mu_);
  void MakeLater(const ObjectKey& key, State& state, MonotonicTime when) JANUS_REQUIRES(mu_);
  void Settle(const ObjectKey& key) JANUS_REQUIRES(mu_);
  void StopWorking(State& state, MonotonicTime now) JANUS_REQUIRES(mu_);

  const WorkQueueOptions options_;
  mutable Mutex mu_;
  std::map<ObjectKey, State> keys_ JANUS_GUARDED_BY(mu_);
  std::deque<ObjectKey> ready_ JANUS_GUARDED_BY(mu_);
  std::set<std::pair<MonotonicTime, ObjectKey>> later_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
