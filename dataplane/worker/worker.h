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
#include "dataplane/experts/routing_record.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/worker/commit_listener.h"
#include "dataplane/worker/epoch_session.h"
#include "dataplane/worker/instance_state.h"
#include "dataplane/worker/settings.h"
#include "dataplane/worker/token_router.h"
#include "dataplane/worker/worker_metrics.h"

// The process of one instance: control calls, token streams, metrics, one epoch after another.
//
// May include: every other room of the data plane but text and gateway; rpc, proto, kernels,
// common.
namespace janus::dataplane {

// One instance from its start to its end, over epochs (docs/design/007): idle, prepared for an
// epoch beside the one it serves, serving it, holding what it has when that was lost.
//
// Thread-safe.
class Worker {
 public:
  // Computes in `context`, which outlives it. `on_loss` is called from the step thread when an
  // epoch has ended with an error; the worker then holds its requests for the next one. Peers that
  // the exchange's listener refuses are counted in `registry`, which outlives the worker.
  Worker(WorkerFlags flags, kernels::Context& context, const Clock& clock, Logger log,
         std::function<void(const Status&)> on_loss, MetricRegistry& registry);
  ~Worker();

  // Makes what the topology's epoch needs here, beside what runs: loads what is not here already,
  // connects to the peers; blocks. `progress` is called from the calling thread and returns false
  // to abort. Preparing the same epoch again is OK; a newer one takes the place of one that
  // was prepared, or is being prepared, and not committed. FailedPrecondition: what is for
  // life is not as in the epoch that is served.
  Status Prepare(const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
                 const std::string& epoch_key,
                 const std::function<bool(const PrepareProgress&)>& progress);
  // Serves the prepared epoch in the place of the one before, whose running step is given up and
  // computed again.
  Status Commit(const Stamp& stamp);
  Status Abort(const Stamp& stamp);
  // Of the committed epoch: refuses new requests; returns when the running ones have ended, or
  // DeadlineExceeded, or Cancelled once `keep_waiting`, asked ten times a second, says false.
  // Of a newer one, in which this worker has no place: its epoch ends, and the gateways get back
  // what it has not ended, at once.
  Status Drain(const Stamp& stamp, MonotonicTime deadline,
               const std::function<bool()>& keep_waiting);

  // Of the committed epoch: another topology serves from now on, though this one goes on with what
  // it has. InvalidArgument: it is not of a newer epoch.
  struct Successor {
    Topology topology;
    std::string text_digest;
  };
  Status Supersede(const Stamp& stamp, Successor successor);

  // Ends the step loop and a Prepare under way, for the process is about to end.
  void Stop();
  bool draining() const;

  // Of a write that is not for this worker alone: remembers its fence, or refuses it as one for
  // this worker.
  Status Accept(const Stamp& stamp);
  // This process is to end. Takes no new requests, and waits for no instance that has left.
  void Depart();
  // After Depart: nothing of the service rests on this worker any more. It was told of an epoch
  // without it, or the epoch has ended; or no gateway is attached to it and it has no requests.
  bool HasDeparted() const;
  // Ends the epoch that is served, and drops what was prepared up to `epoch`; gateways get back
  // what has not ended.
  void Leave(uint64_t epoch) JANUS_EXCLUDES(change_, mu_);

  // PermissionDenied: another service's.
  Status CheckService(const std::string& service_uid) const;
  // The committed topology; absent before the first Commit, and when this worker has left.
  std::optional<Topology> topology() const;
  // The topology that serves readers of texts by this tokenizer: the successor if it has the same
  // tokenizer, else the committed one if that has it. An empty digest fits any.
  std::optional<Topology> TopologyFor(const std::string& text_digest) const;
  uint64_t fence() const;
  // Told of every Commit and Supersede from now on, as long as it lives.
  void AddCommitListener(std::weak_ptr<CommitListener> listener);
  InstanceStatistics statistics() const;
  // Of an expert instance: what it tells of the service's routing (routing_record.h), with at most
  // so many of the sampled rounds.
  RoutingStatistics routing(bool popularity, size_t rounds) const {
    return routing_.Read(popularity, rounds);
  }
  // What a scrape sees.
  std::vector<MetricFamily> metrics() const;

  // The attention instance while it is of an epoch, else the reason why not. Valid as long as the
  // worker.
  Result<AttentionInstance*> attention() const;
  TokenRouter& router() { return router_; }
  const WorkerFlags& flags() const { return flags_; }
  kernels::Context& context() { return context_; }
  // Of the prepared model.
  struct ServedModel {
    ModelDescription description;
    std::string answers_digest;  // as InstanceState has them
    std::string text_digest;
  };
  std::optional<ServedModel> model() const;

 private:
  Status CheckStamp(const Stamp& stamp) JANUS_REQUIRES(mu_);
  // The room for sequences that it says this worker has.
  SequenceRoom RoomIn(const Topology& topology) const;
  // OK: there is something to prepare. AlreadyExists with an empty message: it is there already.
  Status CheckNew(const Stamp& stamp, const EpochRequest& request) JANUS_REQUIRES(mu_);
  Result<std::unique_ptr<EpochSession>> Build(
      const EpochRequest& request, const std::function<bool(const PrepareProgress&)>& progress,
      const std::stop_source& stop) JANUS_EXCLUDES(mu_);
  Result<const InstanceState*> InstanceStateFor(
      const EpochRequest& request, const std::function<bool(const PrepareProgress&)>& progress,
      std::stop_source stop) JANUS_EXCLUDES(mu_);
  // Ends the steps of the serving epoch; what it had counted.
  InstanceStatistics EndServing() JANUS_REQUIRES(change_) JANUS_EXCLUDES(mu_);
  uint64_t committed() const JANUS_EXCLUDES(mu_);

  const WorkerFlags flags_;
  kernels::Context& context_;
  const Clock& clock_;
  const Logger log_;
  const std::function<void(const Status&)> on_loss_;
  TokenRouter router_;
  StepMetrics step_metrics_;
  RoutingRecord routing_;  // of an expert instance's epochs
  ExchangeRefusalCounts refusals_;
  ExchangeListener listener_{&refusals_};  // opened by the thread in Prepare

  // Held while serving_ or prepared_ change, over the end of a step thread; before mu_.
  Mutex change_;
  mutable Mutex mu_;
  uint64_t fence_ JANUS_GUARDED_BY(mu_) = 0;
  std::optional<Successor> successor_ JANUS_GUARDED_BY(mu_);
  uint64_t preparing_ JANUS_GUARDED_BY(mu_) = 0;  // epoch of a Prepare under way; 0: none
  std::stop_source prepare_stop_ JANUS_GUARDED_BY(mu_);
  CondVar prepare_ended_;
  bool stopping_ JANUS_GUARDED_BY(mu_) = false;
  bool draining_ JANUS_GUARDED_BY(mu_) = false;
  std::stop_source departing_;
  uint64_t committed_ JANUS_GUARDED_BY(mu_) = 0;
  std::unique_ptr<InstanceState> state_ JANUS_GUARDED_BY(mu_);  // for good with the first Commit
  std::unique_ptr<EpochSession> prepared_ JANUS_GUARDED_BY(mu_);
  std::unique_ptr<EpochSession> serving_ JANUS_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<CommitListener>> listeners_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
