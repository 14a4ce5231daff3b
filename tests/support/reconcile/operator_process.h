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

// The reconcile loop of one process, without its threads: caches that are read anew after changes
// of the store, a queue, a Reconciler. Its destructor is the end of the process. Confined to one
// thread.
class OperatorProcess {
 public:
  // All outlive this. `api`: for the loop's calls; `server`: for its informers.
  OperatorProcess(ObjectApi& api, LocalStore& server, ServicePlanner& planner, MemberCalls& calls,
                  const SimulatedTimeline& timeline, ReconcilerOptions options);

  // Updates the informers, except those that are held back; then makes a pass for every key that is
  // due.
  void Step();

  // The input of a pass over that service now. Nothing: the service does not exist.
  std::optional<ServiceObserved> Observe(const ObjectKey& key) {
    CatchUp();
    return reconciler_.Look(key);
  }
  const ReconcilerOptions& options() const { return reconciler_.options(); }

  // While true, its informer of pods shows nothing new.
  bool holds_pods_back = false;

  const std::vector<Happening>& events() const { return events_; }
  // How often Events with this reason ("Created", "ScaledUp", ...) occurred.
  int CountEvents(const std::string& reason) const;
  // The text of the last of them; empty: there was none.
  std::string LastText(const std::string& reason) const;
  int64_t passes() const { return passes_; }
  // Of the last failed pass.
  const Status& last_error() const { return last_error_; }

 private:
  struct Watched {
    const KeptKind* kind;
    std::unique_ptr<ObjectStore> store;
  };

  static std::vector<Watched> WatchAll();

  // At first lists everything, then applies changes one by one, like a watch.
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
