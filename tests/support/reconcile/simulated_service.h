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

// A small model; by default its plan assumes a machine with plenty of room.
class ScriptedPlanner final : public ServicePlanner {
 public:
  Result<PlannedService> Plan(const MoEService& service) const;
  // Everything that it would plan now.
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
  // It knows nothing before a worker can be asked.
  bool asks = false;
  bool knows = false;
  std::string awaited;  // as in PlannedService
  // From the last Ask.
  std::string uid;
  WorkersToAsk workers;
  std::set<std::string> forgotten;
  std::string digest = "digest-1";
  std::map<std::string, std::string> digest_of;  // by the model's folder; comes before `digest`
  MachineRoom room{int64_t{256} << 30, 64, {}, GpuRoom{64, int64_t{80} << 30}};
  RoleDevices devices = {};  // nothing: workers do not report their devices
};

// A MoEService "demo" in namespace "default" with its user, cluster, workers and operator, in
// simulated time. Confined to one thread.
class SimulatedService {
 public:
  SimulatedService();

  // The object as a user writes it: `attention` and `experts` replicas, and further lines of spec,
  // indented by two spaces.
  void Apply(int attention, int experts, const std::string& more = "");
  // A merge patch in JSON, as `kubectl patch --type merge`.
  void Patch(const std::string& patch);
  void Delete();
  // Runs everything for this time.
  void Run(Seconds time);
  // Runs until the condition is True at the newest generation; fails the test after `most`.
  void RunUntil(const std::string& condition, Seconds most = Seconds(120));

  Node Service() { return *Get(kMoEServices, "demo"); }
  std::optional<Node> Get(const Resource& resource, const std::string& name);
  std::vector<Node> List(const Resource& resource);
  // "True/AsWanted"; empty: the condition is absent.
  std::string Condition(const std::string& type);
  std::string MessageOf(const std::string& type);
  std::vector<PodSeen> Pods(Role role);  // running ones
  std::optional<MoETopology> Topology();
  // Expects the wanted state. The service is Ready. Exactly `attention` and `experts` instances
  // run, all serve the committed epoch, and their pods are labelled and Ready members. There is no
  // proposal, and the budgets hold all of their pods.
  void ExpectWhole(int attention, int experts);
  // The same, without checking Ready.
  void ExpectMembers(int attention, int experts);

  // Ends the operator and starts a new one. `api`: for its calls from now on; null: the store.
  void RestartOperator(ObjectApi* api = nullptr);
  OperatorProcess& op() { return *operator_; }

  SimulatedTimeline timeline;
  // Its operator reads every change, also after hours in one step.
  LocalStore store{{.limits = {.max_changes = 1 << 20, .max_history_bytes = size_t{1} << 30}},
                   timeline};
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
