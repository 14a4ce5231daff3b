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
#include "operator/api/supported.h"
#include "operator/certificates/certificate_keeper.h"
#include "operator/kube/event_book.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/observe/caches.h"
#include "operator/reconcile/pods/roster.h"

namespace janus::control {

struct ReconcilerOptions {
  OperatorDefaults defaults;
  std::string worker_image;             // where a MoEService names none
  std::string worker_cuda_image;        // the same of one on GPUs; empty: it has to name one
  std::vector<std::string> host_paths;  // folders below which a source HostPath may lie; "/": any
  Ground ground = Ground::kCluster;
  LocateWorker locate = WorkerAtPodIp;
  Seconds call_timeout{10};  // of each call to the API
  // Who issues, outliving the reconciler; null, as on one machine: connections are plain text.
  CertificateKeeper* certificates = nullptr;
};

// What a pass came to: the error for which it should be tried again, and when to look again anyway.
struct PassResult {
  Status status;
  std::optional<MonotonicTime> again = {};
};

// Brings services to what their MoEServices say, pass by pass. A pass reads caches, decides from
// what is there alone, writes the differences and says what it saw; it never waits for pods or
// workers. Everything it must not forget is in the API's objects; what it keeps in memory (calls
// under way, its own writes that caches do not show yet, when numbers were last written) is lost
// with the process, and costs at most a call said twice.
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

  // Deletes what is kept of the certificates of services that are no more: they went while nobody
  // led.
  Status SweepCertificates(const std::stop_token& stop);

  // Another term of leadership begins: nothing of the last one counts. No pass runs meanwhile.
  void ForgetAll();

 private:
  struct Memory;
  class OnePass;

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
