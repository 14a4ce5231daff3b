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
  // A separate client, so that other calls cannot delay a renewal; outlives the manager.
  ObjectApi* api = nullptr;
  LeaderElectionOptions lease;
};

struct ManagerOptions {
  ReconcilerOptions reconciler;
  std::vector<std::string> namespaces;  // to watch for services; empty: all
  bool reads_nodes = true;  // false: neither nodes nor HardwareProfiles; both are of the cluster
  int workers = 4;          // services reconciled at a time; >= 1
  std::string instance = "janus-operator";  // this process, in Events: the pod's name
  // Every service is reconciled again after this time, in case a change was missed. Correctness
  // does not depend on it, and such a pass writes nothing. controller-runtime's default.
  Seconds resync{36'000};
  // Absent: it leads from the start, as on a single machine.
  std::optional<ElectionOptions> election = {};
};

// The control plane of one process: informers, a queue, workers that reconcile services, and
// Events. janus-operator runs it against an API server, janusctl against the store in its process.
//
// Passes start once every informer has synced and this process leads. The end of a term ends its
// passes at once: running calls are stopped, and new ones are refused (leader_gate.h). What one
// term knew is forgotten before the next. With an election, a call of a pass may not last longer
// than the gap between the end of our term and our successor's earliest start.
//
// Thread-safe, except Run and the destructor, which only the owner calls.
class Manager {
 public:
  // All arguments outlive this. `timeline` must follow the system's clock.
  Manager(ObjectApi& api, ServicePlanner& planner, MemberCalls& calls, const Timeline& timeline,
          MetricRegistry& registry, Logger log, ManagerOptions options);

  // Call once. Runs until `stop`; then it releases the lease and ends all its threads.
  void Run(const std::stop_token& stop);

  // Requests a pass over the service, since something outside the API has changed.
  void Wake(const ObjectKey& key) { queue_.Add(key); }

  // An error if a thread has stopped making progress.
  Status Live() const;
  // OK once the caches are complete, so that it could lead.
  Status Ready() const { return watches_.Synced(); }
  bool IsLeading() const;
  // For a scrape. Updates the gauges. Includes services only while it leads, so that each has one
  // source.
  std::vector<MetricFamily> Collect();

 private:
  bool MayAct() const;
  void Notify();
  // Blocks until `holds` (true) or `stop` (false).
  bool WaitFor(const std::function<bool()>& holds, const std::stop_token& stop);
  void Lead(const std::stop_token& stop);
  // Returns when this term ends: the lease is lost, or `stop`.
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
  // Notified when leadership or synced informers change.
  Mutex mu_;
  CondVar changed_;
  GpuMeter gpus_;                  // of this term
  std::atomic<int64_t> term_ = 0;  // the term that may act; 0: none
  KeyQueue queue_;
  Watches watches_;
  EventRecorder recorder_;
  std::optional<Campaign> campaign_;
  LeaderGate gate_;
  Reconciler reconciler_;
};

}  // namespace janus::control
