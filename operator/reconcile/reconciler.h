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

// What a pass came to: the error for which it should be tried again, and when to look again anyway.
struct PassResult {
  Status status;
  std::optional<MonotonicTime> again = {};
};

// Brings services to what their MoEServices say, pass by pass. A pass observes the service into
// plain data, decides from that alone what to do, and applies it, as often as applying changed
// something; then it writes the status (docs/design/012-observe-plan-apply.md). It never waits for
// pods or workers. Everything it must not forget is in the API's objects; what it keeps in memory
// (calls under way, its own writes that caches do not show yet, when numbers were last written) is
// lost with the process, and costs at most a call said twice.
//
// Thread-safe; of one key one pass runs at a time: the caller's work queue sees to it.
class Reconciler {
 public:
  using RecordEvent = std::function<void(Happening)>;
  using WakeKey = std::function<void(const ObjectKey&)>;

  // All outlive this. `wake` may be called on any thread, until this is destroyed.
  Reconciler(ObjectApi& api, const Caches& caches, ServicePlanner& planner, MemberCalls& calls,
             const Clock& clock, RecordEvent record_event, WakeKey wake, ReconcilerOptions options);
  ~Reconciler();

  // One pass over the service, if it is there. A service that has gone is forgotten: what it owned
  // the API server collects.
  PassResult Pass(const ObjectKey& key, const std::stop_token& stop);

  // What a pass would decide on now. For tests and diagnosis: nothing is written, but members that
  // are due are asked. Not while a pass over the service runs. Nothing: the service is not there.
  std::optional<ServiceObserved> Look(const ObjectKey& key);
  const ReconcilerOptions& options() const { return options_; }

  // Deletes what is kept of the certificates of services that were deleted while no process
  // led.
  Status SweepCertificates(const std::stop_token& stop);

  // Another term of leadership begins: nothing of the last one counts. No pass runs meanwhile.
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
