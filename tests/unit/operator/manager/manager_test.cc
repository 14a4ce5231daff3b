// The reconcile loop with its threads, against the store.

#include "operator/manager/manager.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <thread>

#include "operator/api/yaml.h"
#include "operator/local/store/store_client.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/status/conditions.h"
#include "tests/support/kube/passing_api.h"
#include "tests/support/reconcile/prompt_members.h"
#include "tests/support/reconcile/scripted_cluster.h"
#include "tests/support/reconcile/simulated_service.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

const CallLimits kLimits;
const std::chrono::seconds kDeadline = Scaled(std::chrono::seconds(60));

// A manager that runs until it is stopped.
class Running {
 public:
  Running(ObjectApi& api, ServicePlanner& planner, MemberCalls& calls, const Timeline& timeline,
          ManagerOptions options)
      : manager_(api, planner, calls, timeline, registry_, Logger(2, LogLevel::kError),
                 std::move(options)),
        thread_([this](const std::stop_token& stop) { manager_.Run(stop); }) {}

  void End() {
    thread_.request_stop();
    thread_.join();
  }
  Manager* operator->() { return &manager_; }

 private:
  MetricRegistry registry_;
  Manager manager_;
  std::jthread thread_;
};

class ManagerTest : public testing::Test {
 protected:
  ManagerTest() { cluster_.start_time = cluster_.end_time = Seconds(0); }

  ManagerOptions Options() {
    ManagerOptions options;
    options.reconciler.worker_image = "worker:1";
    options.reconciler.defaults.gateway_image = "gateway:1";
    options.reconciler.host_paths = {"/models"};
    return options;
  }
  // The lease lasts longer than a slow machine takes to renew it, unless a test needs it to expire.
  ManagerOptions Candidate(const std::string& identity, ObjectApi* api = nullptr,
                           Seconds lease = Seconds(600)) {
    ManagerOptions options = Options();
    ElectionOptions election;
    election.api = api == nullptr ? &operator_ : api;
    election.lease.lease = {"default", "leader"};
    election.lease.identity = identity;
    election.lease.lease_duration = lease;
    election.lease.renew_deadline = lease * 2 / 3;
    election.lease.retry_period = Seconds(0.2);
    options.election = election;
    return options;
  }
  std::unique_ptr<Running> Start(const ManagerOptions& options, ObjectApi* api = nullptr) {
    return std::make_unique<Running>(api == nullptr ? operator_ : *api, planner_, members_,
                                     timeline_, options);
  }

  void Apply(int attention, int experts, const std::string& of_experts = "") {
    const ApiResult<Node> applied = user_.Apply(
        kMoEServices,
        *ParseYaml("{apiVersion: serving.janus.dev/v1alpha1, kind: MoEService, "
                   "metadata: {name: demo, namespace: default}, spec: {"
                   "model: {source: {type: HostPath, hostPath: {path: /models/demo}}}, "
                   "device: CPU, roles: {attention: {replicas: " +
                       std::to_string(attention) +
                       "}, experts: {replicas: " + std::to_string(experts) + of_experts + "}}}}",
                   "demo"),
        Subresource::kNone, {}, kLimits);
    ASSERT_TRUE(applied.ok()) << applied.error().message;
  }
  // Simulates the cluster until `holds` is true.
  void Await(const char* what, const std::function<bool()>& holds) {
    const MonotonicTime end = timeline_.Now() + kDeadline;
    do {
      cluster_.Step();
      if (holds()) return;
      timeline_.WaitUntil(timeline_.Now() + std::chrono::milliseconds(5), {});
    } while (timeline_.Now() < end);
    FAIL() << "never came: " << what;
  }
  bool IsReady() {
    const ApiResult<Node> service =
        user_.Get(kMoEServices, {"default", "demo"}, Subresource::kNone, kLimits);
    if (!service.ok()) return false;
    const auto generation = IntegerAt(*service, {"metadata", "generation"});
    for (const Condition& one : ReadConditions(*service)) {
      if (one.type == "Ready") {
        return one.status == ConditionStatus::kTrue && one.observed_generation == generation;
      }
    }
    return false;
  }
  std::set<std::string> Pods() {
    std::set<std::string> out;
    const ObjectList pods = *user_.List(kPods, {}, kLimits);
    for (const Node& pod : pods.items) out.insert(KeyOf(pod).name);
    return out;
  }

  int64_t Version() {
    int64_t version = 0;
    store_.Do([&](LocalStore::Session& session) { version = session.tables.version(); });
    return version;
  }
  static uint64_t Passes(Running& manager) {
    uint64_t passes = 0;
    for (const MetricFamily& family : manager->Collect()) {
      if (family.name != "controller_runtime_reconcile_time_seconds") continue;
      for (const uint64_t count : family.series[0].histogram.counts) passes += count;
    }
    return passes;
  }

  const SystemTimeline timeline_;
  LocalStore store_{{}, timeline_};
  StoreClient user_{store_, "user"};
  StoreClient operator_{store_, "janus-operator"};
  ScriptedCluster cluster_{timeline_, store_};
  TempFolder folder_;
  FenceBook book_{folder_.path() + "/fences", "test"};
  PromptMembers members_{book_, timeline_};
  ScriptedPlanner planner_;
};

TEST_F(ManagerTest, BringsAServiceUpKeepsItAndLetsItGo) {
  const auto manager = Start(Options());
  Apply(1, 2);
  Await("ready", [&] { return IsReady(); });
  EXPECT_EQ(Pods().size(), 3u);
  EXPECT_TRUE((*manager)->Ready().ok());
  EXPECT_TRUE((*manager)->Live().ok());
  const std::string lost = *Pods().begin();
  const ApiResult<Node> deleted = user_.Delete(kPods, {"default", lost}, {}, kLimits);
  ASSERT_TRUE(deleted.ok()) << deleted.error().message;
  Await("a replacement", [&] { return IsReady() && Pods().size() == 3 && !Pods().contains(lost); });
  Apply(2, 2);
  Await("another one", [&] { return IsReady() && Pods().size() == 4; });
  ASSERT_TRUE(user_.Delete(kMoEServices, {"default", "demo"}, {}, kLimits).ok());
  Await("nothing left", [&] { return Pods().empty(); });
  EXPECT_EQ(cluster_.pods_ever().size(), 5u);
  EXPECT_GT(Passes(*manager), 0u);
  manager->End();
}

TEST_F(ManagerTest, WhatItWritesItselfBringsItToRest) {
  const auto manager = Start(Options());
  Apply(1, 1);
  Await("ready", [&] { return IsReady(); });
  Await("a pass after which nothing has changed", [&] {
    const int64_t before = Version();
    const uint64_t passes = Passes(*manager);
    (*manager)->Wake({"default", "demo"});
    Await("a pass", [&] { return Passes(*manager) > passes; });
    return Version() == before;
  });
  manager->End();
}

TEST_F(ManagerTest, TheGpusOfCommittedPodsAreMeteredAsLongAsTheServiceIsThere) {
  const auto manager = Start(Options());
  const auto gpu_seconds = [&]() -> std::optional<double> {
    for (const MetricFamily& family : (*manager)->Collect()) {
      if (family.name != "janus_gpu_seconds_total" || family.series.empty()) continue;
      return family.series[0].value;
    }
    return std::nullopt;
  };
  Apply(1, 2);
  Await("ready", [&] { return IsReady(); });
  Await("metered", [&] { return gpu_seconds().has_value(); });
  EXPECT_EQ(gpu_seconds(), 0) << "no pod has a GPU";
  Apply(1, 2, ", resources: {limits: {nvidia.com/gpu: '2', memory: 1Gi}}");
  Await("all pods anew", [&] { return IsReady() && cluster_.pods_ever().size() >= 5; });
  Await("it grows", [&] { return gpu_seconds() > 0.0; });
  // Four GPUs: at most the time around two reads, and at least the time between them, once the last
  // of the old pods no longer counts.
  Await("all four are metered", [&] {
    const MonotonicTime first = timeline_.Now();
    const double was = *gpu_seconds();
    const MonotonicTime second = timeline_.Now();
    Await("some time", [&] { return timeline_.Now() > second + std::chrono::milliseconds(50); });
    const MonotonicTime third = timeline_.Now();
    const double is = *gpu_seconds();
    EXPECT_LE(is - was, 4 * Seconds(timeline_.Now() - first).count() + 1e-9);
    return is - was >= 4 * Seconds(third - second).count() - 1e-9;
  });
  ASSERT_TRUE(user_.Delete(kMoEServices, {"default", "demo"}, {}, kLimits).ok());
  Await("no series", [&] { return !gpu_seconds(); });
  manager->End();
}

TEST_F(ManagerTest, OfTwoOneActsAndTheOtherGoesOnWhenItEnds) {
  const auto a = Start(Candidate("a"));
  Await("a leads", [&] { return (*a)->IsLeading(); });
  const auto b = Start(Candidate("b"));
  Apply(1, 2);
  Await("ready", [&] { return IsReady(); });
  EXPECT_FALSE((*b)->IsLeading());
  a->End();
  EXPECT_FALSE((*a)->IsLeading());
  Await("b leads", [&] { return (*b)->IsLeading(); });
  Apply(2, 3);
  Await("ready again", [&] { return IsReady() && Pods().size() == 5; });
  EXPECT_EQ(cluster_.pods_ever().size(), 5u);
  b->End();
}

// An API with updates of the Lease that a test can block.
class CuttableApi final : public PassingApi {
 public:
  using PassingApi::PassingApi;
  std::atomic<bool> is_cut = false;
  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override {
    if (is_cut) return LocalError(Unavailable("cut"));
    return PassingApi::Get(resource, key, subresource, limits);
  }
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override {
    if (is_cut) return LocalError(Unavailable("cut"));
    return PassingApi::Update(resource, object, subresource, options, limits);
  }
};

// An API in which creates of pods hang until they are stopped.
class HangingApi final : public PassingApi {
 public:
  using PassingApi::PassingApi;
  std::atomic<bool> hangs = true;
  std::atomic<int> hanging = 0;
  std::atomic<int> stopped = 0;
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override {
    if (&resource != &kPods || !hangs) {
      return PassingApi::Create(resource, object, options, limits);
    }
    ++hanging;
    SystemTimeline().WaitUntil(MonotonicClock::now() + kDeadline, limits.stop);
    stopped += limits.stop.stop_requested() ? 1 : 0;
    return LocalError(Cancelled("stopped"));
  }
};

TEST_F(ManagerTest, ALostLeaseEndsThePassUnderWayAndTheNextTermBeginsAnew) {
  CuttableApi lease(operator_);
  HangingApi api(operator_);
  const auto manager = Start(Candidate("a", &lease, Scaled(Seconds(3))), &api);
  Apply(1, 2);
  Await("a pass that hangs", [&] { return api.hanging > api.stopped; });
  lease.is_cut = true;
  Await("its end", [&] { return api.hanging == api.stopped && !(*manager)->IsLeading(); });
  EXPECT_TRUE(Pods().empty());
  api.hangs = false;
  lease.is_cut = false;
  Await("ready", [&] { return IsReady(); });
  EXPECT_EQ(Pods().size(), 3u);
  manager->End();
}

// An API in which nodes cannot be listed.
class BlindApi final : public PassingApi {
 public:
  using PassingApi::PassingApi;
  std::atomic<bool> is_blind = true;
  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override {
    if (is_blind && resource.plural == "nodes") {
      return LocalError(Unavailable("no nodes today"));
    }
    return PassingApi::List(resource, options, limits);
  }
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override {
    if (is_blind && resource.plural == "nodes") return LocalError(Unavailable("no nodes today"));
    return PassingApi::Watch(resource, options, deliver, stop);
  }
};

TEST_F(ManagerTest, NothingIsDoneBeforeEverythingWasSeenAndReadinessSaysWhatIsMissing) {
  BlindApi api(operator_);
  Apply(1, 2);
  const auto manager = Start(Candidate("a"), &api);
  Await("the reason", [&] {
    return (*manager)->Ready().message() == "waiting for the first list of nodes: no nodes today";
  });
  EXPECT_FALSE((*manager)->IsLeading());
  EXPECT_TRUE(Pods().empty());
  api.is_blind = false;
  Await("ready", [&] { return IsReady(); });
  manager->End();
}

}  // namespace
}  // namespace janus::control
