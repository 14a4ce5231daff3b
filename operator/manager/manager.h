#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/metrics.h"
#include "common/mutex.h"
#include "operator/kube/event_recorder.h"
#include "operator/manager/campaign.h"
#include "operator/manager/gpu_meter.h"
#include "operator/manager/key_queue.h"
#include "operator/manager/leader_gate.h"
#include "operator/manager/metrics.h"
#include "operator/manager/watches.h"
#include "operator/reconcile/reconciler.h"

namespace janus::control {

struct ElectionOptions {
  // Calls of its own, so that no burst of the others makes a renewal late; outlives the manager.
  ObjectApi* api = nullptr;
  LeaderElectionOptions lease;
};

struct ManagerOptions {
  ReconcilerOptions reconciler;
  std::vector<std::string> namespaces;      // whose services are kept; empty: all
  int workers = 4;                          // services that are passed over at a time; 1..
  std::string instance = "janus-operator";  // this process, in Events: the pod's name
  // Every service is looked at again after this, should a change ever have been missed. Nothing
  // rests on it, and such a look writes nothing; controller-runtime's default.
  Seconds resync{36'000};
  // Absent: it leads from the start, as on one machine.
  std::optional<ElectionOptions> election = {};
};

// The control plane of one process: informers, a queue, workers that pass over services, Events;
// what janus-operator runs against an API server and janusctl against the store of its machine.
//
// Passes begin when every informer has synced and while this process leads. A term that ends ends
// its passes at once: their calls are stopped, and those that would still be made are refused
// (leader_gate.h). What one term knew is forgotten before the next begins. With an election no call
// of a pass lasts longer than what lies between our last moment and our successor's first.
//
// Thread-safe, but for Run and the destructor: the owner's.
class Manager {
 public:
  // All outlive this. `timeline`'s time is the machine's.
  Manager(ObjectApi& api, ServicePlanner& planner, MemberCalls& calls, const Timeline& timeline,
          MetricRegistry& registry, Logger log, ManagerOptions options);

  // Once. Until `stop`; then the lease is given up, and no thread of this is left.
  void Run(const std::stop_token& stop);

  // The service should be looked at: something outside the API has changed.
  void Wake(const ObjectKey& key) { queue_.Add(key); }

  // Its threads come round.
  Status Live() const;
  // The caches are full: it could lead.
  Status Ready() const { return watches_.Synced(); }
  bool IsLeading() const;
  // For a scrape: brings gauges up to date. Series of services only while it leads, so that each
  // has one source.
  std::vector<MetricFamily> Collect();

 private:
  bool MayAct() const;
  void Notify();
  // Returns when `holds`, or with false when `stop` comes.
  bool WaitFor(const std::function<bool()>& holds, const std::stop_token& stop);
  void Lead(const std::stop_token& stop);
  // Returns when this term is over: lost, or by `stop`.
  void WaitForEnd(const std::stop_token& stop);
  void Work(const std::stop_token& stop);
  void AddAll();
  void Tell(Happening happening);
  void MeterGpus(const ObjectKey& key);

  const ManagerOptions options_;
  const Timeline& timeline_;
  const Logger log_;
  MetricRegistry& registry_;
  ManagerMetrics metrics_;
  WorkQueueMetrics queue_metrics_;
  EventMetrics event_metrics_;
  // Who leads, or what is synced, has changed.
  Mutex mu_;
  CondVar changed_;
  GpuMeter gpus_;                  // of this term
  std::atomic<int64_t> term_ = 0;  // whose passes may act; 0: none
  KeyQueue queue_;
  Watches watches_;
  EventRecorder recorder_;
  std::optional<Campaign> campaign_;
  LeaderGate gate_;
  Reconciler reconciler_;
};

}  // namespace janus::control
