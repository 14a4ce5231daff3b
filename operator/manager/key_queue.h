#pragma once

#include <optional>
#include <stop_token>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/kube/work_queue.h"

namespace janus::control {

// A WorkQueue on which workers block. Uses the system's clock. Thread-safe.
class KeyQueue {
 public:
  explicit KeyQueue(WorkQueueOptions options) : queue_(options) {}

  // If the queue is full, the key is dropped, and the next TakeOverflow returns true.
  void Add(const ObjectKey& key);
  void AddAt(const ObjectKey& key, MonotonicTime when);
  // True if keys were dropped since the last call: the caller then adds all keys again.
  bool TakeOverflow();

  // Blocks until a key is due; call Done, Retry or PutDown for it. Nothing: `stop` was requested.
  std::optional<ObjectKey> Take(const std::stop_token& stop);
  // The key succeeded; its failures are reset.
  void Done(const ObjectKey& key);
  // The key failed and waits longer after each failure in a row.
  void Retry(const ObjectKey& key);
  // The key was neither finished nor failed.
  void PutDown(const ObjectKey& key);

  // Keys that wait, including delayed ones.
  size_t depth() const { return queue_.depth(); }
  // Updates the gauges of keys at workers; call it before a scrape.
  void Measure() const { queue_.Measure(MonotonicClock::now()); }

 private:
  void Note(const Status& added) JANUS_REQUIRES(mu_);

  // Keys become due, or due earlier, only under this lock, so that no worker misses one and sleeps
  // on.
  Mutex mu_;
  CondVar changed_;
  WorkQueue queue_;
  bool has_overflowed_ JANUS_GUARDED_BY(mu_) = false;
};

}  // namespace janus::control
