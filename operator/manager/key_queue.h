#pragma once

#include <optional>
#include <stop_token>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/kube/work_queue.h"

namespace janus::control {

// A WorkQueue at which workers wait. Its time is the machine's. Thread-safe.
class KeyQueue {
 public:
  explicit KeyQueue(WorkQueueOptions options) : queue_(options) {}

  // Where there is no room the key is left out, and TakeOverflow says so once.
  void Add(const ObjectKey& key);
  void AddAt(const ObjectKey& key, MonotonicTime when);
  // Keys were left out since the last call: the caller adds all there are, now that some are done.
  bool TakeOverflow();

  // Waits until a key is due; Done or Retry is owed for it. Nothing: `stop` came.
  std::optional<ObjectKey> Take(const std::stop_token& stop);
  // The worker is through with it, and its failures are forgotten.
  void Done(const ObjectKey& key);
  // It failed, and waits longer with each failure in a row.
  void Retry(const ObjectKey& key);
  // It was not finished and did not fail.
  void PutDown(const ObjectKey& key);

  // Keys that wait, delayed ones among them.
  size_t depth() const { return queue_.depth(); }
  // Brings the gauges of what is worked on up to date; before a scrape.
  void Measure() const { queue_.Measure(MonotonicClock::now()); }

 private:
  void Note(const Status& added) JANUS_REQUIRES(mu_);

  // A key becomes due, or due earlier, under this lock alone, so that nobody goes to sleep past it.
  Mutex mu_;
  CondVar changed_;
  WorkQueue queue_;
  bool has_overflowed_ JANUS_GUARDED_BY(mu_) = false;
};

}  // namespace janus::control
