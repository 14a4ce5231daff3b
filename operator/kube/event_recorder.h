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
  Seconds period{0.5};              // how often Run checks for new records
  Seconds write_timeout{10};        // of a write, including retries
  Seconds flush_timeout{3};         // for unwritten Events when Run is stopped
  EventMetrics* metrics = nullptr;  // outlives the recorder; null: none
};

// Writes Events to an API. Callers never wait: an Event that cannot be written is dropped and
// counted. The owner of the loop calls Step at the times that Step returns, or gives Run a thread.
// Step and Run are confined to one thread; the rest is thread-safe.
class EventRecorder {
 public:
  // `api` and `timeline` outlive this.
  EventRecorder(ObjectApi& api, EventRecorderOptions options, const Timeline& timeline);

  // Never blocks for I/O.
  void Record(Happening happening);

  // Writes what is due. Returns when to call it again.
  MonotonicTime Step(const std::stop_token& stop);
  // Steps until `stop`. Then writes what is still unwritten, including repeats, within the rate
  // limit and flush_timeout.
  void Run(const std::stop_token& stop);

  EventStatistics statistics() const;
  // Series with an unwritten part.
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
