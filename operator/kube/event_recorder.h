#pragma once

#include <stop_token>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/kube/event_book.h"
#include "operator/kube/metrics.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"

namespace janus::control {

struct EventRecorderOptions {
  EventBookOptions book;
  Seconds period{0.5};              // how often Run looks for what was recorded
  Seconds write_timeout{10};        // of a write, its own attempts included
  Seconds flush_timeout{3};         // for what is not written when Run is stopped
  EventMetrics* metrics = nullptr;  // outlives the recorder; null: none
};

// Writes Events to an API. An Event is a courtesy: it is dropped, and counted, rather than waited
// for. Driven: the owner of the loop calls Step when it says so, or lends Run a thread.
// Step and Run are confined to one thread; the rest is thread-safe.
class EventRecorder {
 public:
  // `api` and `timeline` outlive this.
  EventRecorder(ObjectApi& api, EventRecorderOptions options, const Timeline& timeline);

  // Never blocks for I/O.
  void Record(Happening happening);

  // Writes what is due. Returns when to be called again.
  MonotonicTime Step(const std::stop_token& stop);
  // Steps until `stop`, then writes what is not written yet, repeats among it, as far as the rate
  // of writes and flush_timeout let it.
  void Run(const std::stop_token& stop);

  EventStatistics statistics() const;
  // Series with something not written yet.
  size_t depth() const;

 private:
  // False: nothing is due.
  bool WriteOne(const CallLimits& limits);
  void Publish() JANUS_REQUIRES(mu_);

  ObjectApi& api_;
  const EventRecorderOptions options_;
  const Timeline& timeline_;
  mutable Mutex mu_;
  EventBook book_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
