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
  size_t capacity = 100'000;     // keys known at a time, waiting, delayed or worked on; >= 1
  Seconds first_backoff{0.005};  // after a key's first failure; doubled with each further one,
  Seconds longest_backoff{300};  // up to this
  WorkQueueMetrics* metrics = nullptr;  // outlives the queue; null: none
};

// Which objects a reconcile loop has to look at. A key says nothing of what happened, so that the
// work depends on what is, not on what was heard.
//
// Invariants:
// (1) A key waits at most once, however often it is added.
// (2) A key is with at most one worker. Added meanwhile, it waits again when that one is done.
// (3) Keys that are ready leave in the order in which they became ready: none starves.
// (4) A delayed key leaves no sooner than its earliest time; added at once it does not wait.
//
// Told the time by its caller. Thread-safe; no call blocks.
class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options);

  // ResourceExhausted: as many keys are known as there may be; the caller lists anew later.
  Status Add(const ObjectKey& key, MonotonicTime now);
  // Ready at `when`.
  Status AddAt(const ObjectKey& key, MonotonicTime when);

  // The next key for a worker; Done is owed for it.
  std::optional<ObjectKey> TryTake(MonotonicTime now);
  // When TryTake may have something that it has not now: the earliest delayed key's time.
  std::optional<MonotonicTime> NextDeadline() const;

  // The worker is through with it.
  void Done(const ObjectKey& key, MonotonicTime now);
  // Instead: it failed, and waits longer with each failure until Forget. Never refused.
  void Retry(const ObjectKey& key, MonotonicTime now);
  // The key's work succeeded: its failures count no more.
  void Forget(const ObjectKey& key);

  // Updates the gauges of keys that are worked on, which grow with time. The owner of the time
  // calls it about every second.
  void Measure(MonotonicTime now) const;

  // Keys that wait, delayed ones among them.
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
    MonotonicTime since;  // since when it is ready, or worked on
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
