#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/kube/object_api.h"
#include "operator/kube/object_store.h"
#include "operator/kube/work_queue.h"
#include "operator/local/store/store_client.h"
#include "operator/reconcile/reconciler.h"
#include "tests/support/kube/simulated_timeline.h"

namespace janus::control {

// The reconcile loop as one process has it, without its threads: caches that are read anew when the
// store has changed, a queue, a Reconciler. Destroying it is the process's end. Confined to one
// thread.
class OperatorProcess {
 public:
  // All outlive this. `api`: what the loop calls; `server`: what its informers see.
  OperatorProcess(ObjectApi& api, LocalStore& server, ServicePlanner& planner, MemberCalls& calls,
                  const SimulatedTimeline& timeline, ReconcilerOptions options);

  // Informers catch up, but for those that are held back; every key that is due gets its pass.
  void Step();

  // What a pass over that service would decide on now. Nothing: it is not there.
  std::optional<ServiceObserved> Observe(const ObjectKey& key) {
    CatchUp();
    return reconciler_.Look(key);
  }
  const ReconcilerOptions& options() const { return reconciler_.options(); }

  // Its informer of pods shows nothing new while it is held back.
  bool holds_pods_back = false;

  const std::vector<Happening>& events() const { return events_; }
  // "Created", "ScaledUp", ...: how often.
  int CountEvents(const std::string& reason) const;
  // What the last of them said; empty: there was none.
  std::string LastText(const std::string& reason) const;
  int64_t passes() const { return passes_; }
  // Of the last pass that failed.
  const Status& last_error() const { return last_error_; }

 private:
  struct Watched {
    const KeptKind* kind;
    std::unique_ptr<ObjectStore> store;
  };

  static std::vector<Watched> WatchAll();

  // The first time it lists all, then it hands on changes one by one, as a watch does.
  void CatchUp();
  void ListAll(Watched& watched);
  void Tell(const Change& change);
  void Deliver(const Resource& resource, const Delta& delta);

  LocalStore& server_;
  StoreClient informer_{server_, "informer"};
  const SimulatedTimeline& timeline_;
  std::vector<Watched> watched_ = WatchAll();  // in the order of Caches
  WorkQueue queue_{WorkQueueOptions{}};
  std::vector<Happening> events_;
  int64_t seen_version_ = -1;
  std::vector<Change> held_back_;
  int64_t passes_ = 0;
  Status last_error_;
  Reconciler reconciler_;
};

}  // namespace janus::control
