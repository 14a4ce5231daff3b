#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/control.h"
#include "common/log.h"
#include "common/mutex.h"
#include "dataplane/comm/meeting.h"
#include "dataplane/model/loader.h"
#include "dataplane/worker/commit_listener.h"
#include "dataplane/worker/settings.h"
#include "dataplane/worker/token_router.h"
#include "dataplane/worker/worker_metrics.h"
#include "kernels/team.h"

namespace janus::dataplane {

// One instance from its start to its end: idle, prepared for an epoch, serving it. This version
// serves the one epoch it was prepared for first.
//
// Thread-safe.
class Worker {
 public:
  // `on_failure` is called once, from the step thread, when serving has ended with an error.
  Worker(WorkerFlags flags, const Clock& clock, Logger log,
         std::function<void(const Status&)> on_failure);
  ~Worker();

  // Loads this instance's share of the model and connects it to its peers; blocks. `progress` is
  // called from the calling thread and returns false to abort. Preparing the same epoch again is
  // OK.
  Status Prepare(const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
                 const std::string& epoch_key,
                 const std::function<bool(const PrepareProgress&)>& progress);
  Status Commit(const Stamp& stamp);
  Status Abort(const Stamp& stamp);
  // Refuses new requests; returns when the running ones have ended, or DeadlineExceeded, or
  // Cancelled once `keep_waiting`, asked ten times a second, says false.
  Status Drain(const Stamp& stamp, MonotonicTime deadline,
               const std::function<bool()>& keep_waiting);

  // Ends the step loop and a Prepare under way, for the process is about to end.
  void Stop();
  bool draining() const;

  // PermissionDenied: another service's.
  Status CheckService(const std::string& service_uid) const;
  // The committed topology; absent before the first Commit.
  std::optional<Topology> topology() const;
  uint64_t fence() const;
  // Told of every Commit from now on, as long as it lives.
  void AddCommitListener(std::weak_ptr<CommitListener> listener);
  InstanceStatistics statistics() const;
  // What a scrape sees.
  std::vector<MetricFamily> metrics() const;

  // The attention instance once it serves, else the reason why not. Valid as long as the worker.
  Result<AttentionInstance*> attention() const;
  TokenRouter& router() { return router_; }
  const WorkerFlags& flags() const { return flags_; }
  // Of the prepared model.
  std::optional<ModelDescription> model() const;

 private:
  struct Session;

  Status CheckStamp(const Stamp& stamp) JANUS_REQUIRES(mu_);
  Result<std::unique_ptr<Session>> Build(
      const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
      const std::string& epoch_key, const std::function<bool(const PrepareProgress&)>& progress,
      std::stop_source stop);

  const WorkerFlags flags_;
  const Clock& clock_;
  const Logger log_;
  const std::function<void(const Status&)> on_failure_;
  TokenRouter router_;
  Histogram step_seconds_{StepSecondsBounds()};

  mutable Mutex mu_;
  uint64_t fence_ JANUS_GUARDED_BY(mu_) = 0;
  uint64_t preparing_ JANUS_GUARDED_BY(mu_) = 0;  // epoch of a Prepare under way; 0: none
  std::stop_source prepare_stop_ JANUS_GUARDED_BY(mu_);
  bool draining_ JANUS_GUARDED_BY(mu_) = false;
  uint64_t committed_ JANUS_GUARDED_BY(mu_) = 0;
  std::unique_ptr<Session> session_ JANUS_GUARDED_BY(mu_);  // prepared or serving
  std::vector<std::weak_ptr<CommitListener>> listeners_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
