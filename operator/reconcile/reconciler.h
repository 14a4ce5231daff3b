#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/kube/event_book.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/observe/caches.h"
#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"

namespace janus::control {

class Memory;
struct Pass;

// The result of a pass: an error means retry; `again` is the time of the next pass anyway.
struct PassResult {
  Status status;
  std::optional<MonotonicTime> again = {};
};

// Makes services match their MoEServices, pass by pass. A pass observes the service into plain
// data, decides from that data alone, and applies the decision. It repeats this while something
// changed, then writes the status (docs/design/012-observe-plan-apply.md). It never waits for pods
// or workers. All essential state is in the API's objects. A process that ends loses only its
// memory (running calls, its writes that caches do not show yet, the time of the last numbers),
// which costs at most a repeated call.
//
// Thread-safe. The caller's work queue ensures that each key has one pass at a time.
class Reconciler {
 public:
  using RecordEvent = std::function<void(Happening)>;
  using WakeKey = std::function<void(const ObjectKey&)>;

  // All arguments outlive this. `wake` may be called on any thread until this is destroyed.
  Reconciler(ObjectApi& api, const Caches& caches, ServicePlanner& planner, MemberCalls& calls,
             const Clock& clock, RecordEvent record_event, WakeKey wake, ReconcilerOptions options);
  ~Reconciler();

  // One pass over the service, if it exists. A deleted service is forgotten; the API server deletes
  // what it owned.
  PassResult Pass(const ObjectKey& key, const std::stop_token& stop);

  // What a pass would observe now. For tests and diagnosis: it writes nothing, but asks members if
  // that is due. Do not call it during a pass over the service. Nothing: the service does not
  // exist.
  std::optional<ServiceObserved> Look(const ObjectKey& key);
  const ReconcilerOptions& options() const { return options_; }

  // Deletes stored certificate data of services that were deleted while no process led.
  Status SweepCertificates(const std::stop_token& stop);

  // Drops all memory at the start of a new term of leadership. No pass may run meanwhile.
  void ForgetAll();

 private:
  control::Pass PassOver(const ObjectKey& key, Memory& memory, const Node& tree,
                         const std::stop_token& stop);
  Memory& MemoryOf(const ObjectKey& key, const std::string& uid);
  void Forget(const ObjectKey& key);

  ObjectApi& api_;
  const Caches caches_;
  ServicePlanner& planner_;
  MemberCalls& calls_;
  const Clock& clock_;
  const RecordEvent record_event_;
  const WakeKey wake_;
  const ReconcilerOptions options_;
  Mutex mu_;
  std::map<ObjectKey, std::unique_ptr<Memory>> memories_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
