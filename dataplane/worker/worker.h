#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/control.h"
#include "common/log.h"
#include "common/mutex.h"
#include "dataplane/comm/handshake/exchange_listener.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/worker/commit_listener.h"
#include "dataplane/worker/epoch_session.h"
#include "dataplane/worker/gateway_book.h"
#include "dataplane/worker/instance_state.h"
#include "dataplane/worker/settings.h"
#include "dataplane/worker/token_router.h"
#include "dataplane/worker/worker_metrics.h"

// The process of one instance: control calls, token streams, metrics, one epoch after another.
//
// May include: all other folders of the data plane except gateway; rpc, proto, kernels,
// common.
namespace janus::dataplane {

// One instance from its start to its end, over epochs (docs/design/007). It is idle, serves an
// epoch, prepares the next one meanwhile, or holds its requests after it has lost its epoch.
//
// Thread-safe.
class Worker {
 public:
  // Computes in `context`, which outlives it. The step thread calls `on_loss` when an epoch has
  // ended with an error; the worker then holds its requests for the next epoch. `registry` counts
  // the peers that the exchange's listener refuses; it outlives the worker.
  Worker(WorkerFlags flags, kernels::Context& context, const Clock& clock, Logger log,
         std::function<void(const Status&)> on_loss, MetricRegistry& registry);
  ~Worker();

  // Prepares the topology's epoch while another runs: loads missing weights, connects to the peers;
  // blocks. `progress` is called from the calling thread; false aborts. Preparing the same epoch
  // again is OK. A newer epoch replaces one that was prepared, or is being prepared, and not
  // committed. FailedPrecondition: a setting that is constant for life differs from the served
  // epoch.
  Status Prepare(const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
                 const std::string& epoch_key,
                 const std::function<bool(const PrepareProgress&)>& progress);
  // Serves the prepared epoch in place of the previous one. The running step is given up and
  // computed again.
  Status Commit(const Stamp& stamp);
  Status Abort(const Stamp& stamp);
  // For the committed epoch: refuses new requests, and returns when the running ones have ended.
  // DeadlineExceeded at the deadline. Cancelled once `keep_waiting`, called ten times a second,
  // returns false. For a newer epoch that does not list this worker: ends its epoch at once, and
  // returns unfinished requests to the gateways.
  Status Drain(const Stamp& stamp, MonotonicTime deadline,
               const std::function<bool()>& keep_waiting);

  // For the committed epoch: another topology serves from now on. This one continues with its
  // requests. InvalidArgument: the other epoch is not newer.
  struct Successor {
    Topology topology;
    std::string text_digest;
  };
  Status Supersede(const Stamp& stamp, Successor successor);

  // Ends the step loop and a running Prepare, because the process is about to end.
  void Stop();
  bool draining() const;

  // For a write that also concerns other workers: checks the stamp as for a write to this worker,
  // and remembers its fence.
  Status Accept(const Stamp& stamp);
  // Called when this process is to end. Refuses new requests, and does not wait for instances that
  // have left.
  void Depart();
  // After Depart: whether the service no longer needs this worker. That is so if a newer epoch
  // without it was committed, its epoch has ended, or it has neither gateways nor requests.
  bool HasDeparted() const;
  // Ends the served epoch, and drops what was prepared up to `epoch`. Gateways get unfinished
  // requests back.
  void Leave(uint64_t epoch) JANUS_EXCLUDES(change_, mu_);

  // PermissionDenied: the caller belongs to another service.
  Status CheckService(const std::string& service_uid) const;
  // FailedPrecondition: the caller asks for another pool of the service. 0: for any.
  Status CheckPool(uint32_t pool) const;
  // The committed topology; absent before the first Commit, and after this worker has left.
  std::optional<Topology> topology() const;
  // The serving topology for clients with this tokenizer: the successor if its tokenizer matches,
  // otherwise the committed one if that matches. An empty digest matches any.
  std::optional<Topology> TopologyFor(const std::string& text_digest) const;
  uint64_t fence() const;
  // Called after every Commit and Supersede from now on, as long as it lives.
  void AddCommitListener(std::weak_ptr<CommitListener> listener);
  InstanceStatistics statistics() const;
  // It serves an epoch, and that is not lost.
  bool serves() const;
  // For an expert instance: its report on the service's routing (routing_record.h), with at most so
  // many sampled rounds.
  RoutingStatistics routing(bool popularity, size_t rounds) const {
    return records_.routing.Read(popularity, rounds);
  }
  // How its newest kept steps went, with at most so many spans (step_trace_record.h).
  std::vector<StepTrace> traces(size_t spans) const { return records_.trace.Read(spans); }
  // The metrics for a scrape.
  std::vector<MetricFamily> metrics() const;

  // The attention instance while it belongs to an epoch, otherwise the reason. Valid as long as the
  // worker.
  Result<AttentionInstance*> attention() const;
  // Compiles what answers must look like; null: the model has no tokenizer. Valid as attention().
  Grammars* grammars() const;
  TokenRouter& router() { return router_; }
  // What the gateways of an attention instance report.
  GatewayBook& gateways() { return gateways_; }
  const WorkerFlags& flags() const { return flags_; }
  kernels::Context& context() { return context_; }
  // For the prepared model.
  struct ServedModel {
    ModelDescription description;
    std::string answers_digest;  // as InstanceState has them
    std::string text_digest;
  };
  std::optional<ServedModel> model() const;

 private:
  Status CheckStamp(const Stamp& stamp) JANUS_REQUIRES(mu_);
  // This worker's room for sequences according to the topology.
  SequenceRoom RoomIn(const Topology& topology) const;
  // OK: there is something to prepare. AlreadyExists with an empty message: it is prepared already.
  Status CheckNew(const Stamp& stamp, const EpochRequest& request) JANUS_REQUIRES(mu_);
  Result<std::unique_ptr<EpochSession>> Build(
      const EpochRequest& request, const std::function<bool(const PrepareProgress&)>& progress,
      const std::stop_source& stop) JANUS_EXCLUDES(mu_);
  Result<const InstanceState*> InstanceStateFor(
      const EpochRequest& request, const std::function<bool(const PrepareProgress&)>& progress,
      std::stop_source stop) JANUS_EXCLUDES(mu_);
  // Ends the steps of the serving epoch and returns its counts.
  InstanceStatistics EndServing() JANUS_REQUIRES(change_) JANUS_EXCLUDES(mu_);
  uint64_t committed() const JANUS_EXCLUDES(mu_);

  const WorkerFlags flags_;
  kernels::Context& context_;
  const Clock& clock_;
  const Logger log_;
  const std::function<void(const Status&)> on_loss_;
  const uint64_t process_;  // LoadCounts::process
  TokenRouter router_;
  GatewayBook gateways_;
  InstanceRecords records_;
  ExchangeRefusalCounts refusals_;
  LinkBook links_;
  ExchangeListener listener_{&refusals_};  // Prepare opens it

  // Held while serving_ or prepared_ change, including the wait for a step thread. Lock it before
  // mu_.
  Mutex change_;
  mutable Mutex mu_;
  uint64_t fence_ JANUS_GUARDED_BY(mu_) = 0;
  std::optional<Successor> successor_ JANUS_GUARDED_BY(mu_);
  uint64_t preparing_ JANUS_GUARDED_BY(mu_) = 0;  // epoch of a running Prepare; 0: none
  std::stop_source prepare_stop_ JANUS_GUARDED_BY(mu_);
  CondVar prepare_ended_;
  bool stopping_ JANUS_GUARDED_BY(mu_) = false;
  bool draining_ JANUS_GUARDED_BY(mu_) = false;
  std::stop_source departing_;
  uint64_t committed_ JANUS_GUARDED_BY(mu_) = 0;
  std::unique_ptr<InstanceState> state_ JANUS_GUARDED_BY(mu_);  // constant from the first Commit on
  std::unique_ptr<EpochSession> prepared_ JANUS_GUARDED_BY(mu_);
  std::unique_ptr<EpochSession> serving_ JANUS_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<CommitListener>> listeners_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
