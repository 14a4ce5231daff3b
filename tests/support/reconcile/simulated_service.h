#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/local/store/store_client.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/reconciler.h"
#include "tests/support/kube/ending_api.h"
#include "tests/support/kube/simulated_timeline.h"
#include "tests/support/reconcile/operator_process.h"
#include "tests/support/reconcile/scripted_cluster.h"
#include "tests/support/reconcile/scripted_workers.h"

namespace janus::control {

// A small model; its plan is made as for a machine with plenty of room, if nothing else is set.
class ScriptedPlanner final : public ServicePlanner {
 public:
  Result<PlannedService> Plan(const MoEService& service) const;
  // All that it would plan by now.
  std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                             const std::vector<std::string>& folders,
                                             MonotonicTime now) override;
  bool Ask(const std::string& service_uid, const WorkersToAsk& now) override {
    uid = service_uid;
    workers = now;
    return !std::exchange(knows, knows || !now.workers.empty()) && knows;
  }
  void Forget(const std::string& service_uid) override { forgotten.insert(service_uid); }

  Status fails;  // instead of a plan
  // It knows nothing before there is a worker to ask.
  bool asks = false;
  bool knows = false;
  std::string awaited;  // PlannedService's
  // Of the last Ask.
  std::string uid;
  WorkersToAsk workers;
  std::set<std::string> forgotten;
  std::string digest = "digest-1";
  std::map<std::string, std::string> digest_of;  // by the model's folder, before `digest`
  MachineRoom room{int64_t{256} << 30, 64};
};

// A MoEService "demo" in namespace "default", its user, its cluster, its workers and its operator,
// in simulated time. Confined to one thread.
class SimulatedService {
 public:
  SimulatedService();

  // The object as a user writes it: `attention` and `experts` replicas, and more lines of spec, two
  // spaces deep.
  void Apply(int attention, int experts, const std::string& more = "");
  // A merge patch in JSON, as `kubectl patch --type merge`.
  void Patch(const std::string& patch);
  void Delete();
  // Everything goes on for so long.
  void Run(Seconds time);
  // Until the condition is True at the newest generation, or a test fails after `most`.
  void RunUntil(const std::string& condition, Seconds most = Seconds(120));

  Node Service() { return *Get(kMoEServices, "demo"); }
  std::optional<Node> Get(const Resource& resource, const std::string& name);
  std::vector<Node> List(const Resource& resource);
  // "True/AsWanted"; empty: there is none.
  std::string Condition(const std::string& type);
  std::string MessageOf(const std::string& type);
  std::vector<PodSeen> Pods(Role role);  // that live
  std::optional<MoETopology> Topology();
  // Everything is as wanted: the service is Ready; exactly `attention`
  // and `experts` pods live, all labelled and Ready members of the committed epoch, which every one
  // of them serves; nothing is proposed; the budgets hold all of them.
  void ExpectWhole(int attention, int experts);
  // The same, whatever Ready says.
  void ExpectMembers(int attention, int experts);

  // The operator is ended and begins anew. `api`: what it calls from now on; null: the store.
  void RestartOperator(ObjectApi* api = nullptr);
  OperatorProcess& op() { return *operator_; }

  SimulatedTimeline timeline;
  LocalStore store{{}, timeline};
  StoreClient user{store, "user"};
  StoreClient operator_client{store, "janus-operator"};
  ScriptedCluster cluster{timeline, store};
  ScriptedWorkers workers{timeline, user};
  ScriptedPlanner planner;
  ReconcilerOptions options;
  // Called between steps.
  std::function<void()> on_step = [] {};

 private:
  void ExpectKnownReasons();

  std::unique_ptr<OperatorProcess> operator_;
};

}  // namespace janus::control
