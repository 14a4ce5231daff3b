// A service of several pools (docs/design/017-pools.md), in simulated time.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pods/roster.h"
#include "tests/support/kube/ending_api.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

using Pods = std::set<std::string>;  // uids

std::optional<MoETopology> TopologyOf(SimulatedService& sim, int pool) {
  for (const Node& one : sim.List(kTopologies)) {
    if (PoolOf(one) == pool) return ParseMoETopology(one).object;
  }
  return std::nullopt;
}

int64_t EpochOf(SimulatedService& sim, int pool) {
  const std::optional<MoETopology> topology = TopologyOf(sim, pool);
  if (!topology || !topology->spec.committed) return 0;
  const TopologyRecord& committed = *topology->spec.committed;
  return committed.epoch > topology->spec.ended_epoch ? committed.epoch : 0;
}

Pods MembersOf(SimulatedService& sim, int pool) {
  const std::optional<MoETopology> topology = TopologyOf(sim, pool);
  return topology && topology->spec.committed ? PodsOf(*topology->spec.committed) : Pods();
}

Pods PodsOfPool(SimulatedService& sim, int pool) {
  Pods out;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) {
      if (pod.pool == pool) out.insert(pod.uid);
    }
  }
  return out;
}

// The pool serves with exactly its own pods, each of which knows the epoch.
void ExpectServes(SimulatedService& sim, int pool, int attention, int experts) {
  SCOPED_TRACE("pool " + std::to_string(pool));
  const int64_t epoch = EpochOf(sim, pool);
  EXPECT_GT(epoch, 0);
  EXPECT_EQ(MembersOf(sim, pool), PodsOfPool(sim, pool));
  std::map<Role, int> count;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) {
      if (pod.pool != pool) continue;
      ++count[role];
      EXPECT_TRUE(pod.has_member_label && pod.has_member_gate && pod.is_ready) << pod.name;
      EXPECT_EQ(sim.workers.Of(InstanceOf(pod)).serving, epoch) << pod.name;
    }
  }
  EXPECT_EQ(count[Role::kAttention], attention);
  EXPECT_EQ(count[Role::kExperts], experts);
}

// What status.pools says: "1 Serving, 2 Draining".
std::string StatesOf(SimulatedService& sim) {
  const Node service = sim.Service();
  const Node* const pools = FindAt(service, {"status", "pools"});
  std::string out;
  if (pools == nullptr) return out;
  for (const Node& one : pools->items) {
    out += (out.empty() ? "" : ", ") + std::to_string(*IntegerAt(one, {"number"})) + " " +
           std::string(TextAt(one, {"state"}));
  }
  return out;
}

std::vector<std::string> GatewayArguments(SimulatedService& sim) {
  const Node gateway = *sim.Get(kDeployments, "demo-gateway");
  const Node* const containers = FindAt(gateway, {"spec", "template", "spec", "containers"});
  std::vector<std::string> out;
  for (const Node& one : FindAt(containers->items[0], {"args"})->items) out.push_back(one.text);
  return out;
}

bool Has(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

const Node& RoleOf(const Node& service, Role role) {
  return FindAt(service, {"status", "roles"})->items[role == Role::kExperts];
}

PodSeen ExpertsOfPool2(SimulatedService& sim) {
  const auto pods = sim.Pods(Role::kExperts);
  return *std::ranges::find(pods, 2, &PodSeen::pool);
}

TEST(Pools, OneIsAvailableThroughoutAChangeOfEpochsWhileAnotherStarts) {
  SimulatedService sim;
  sim.Apply(1, 3, "  pools: 1\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient cpu.");
  sim.Patch(R"({"spec":{"pools":2}})");
  sim.Run(Seconds(20));
  ASSERT_EQ(StatesOf(sim), "1 Serving, 2 Starting");
  const int64_t before = EpochOf(sim, 1);
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":2}}}})");
  for (int i = 0; i < 100; ++i) {
    sim.Run(Seconds(0.01));
    ASSERT_EQ(sim.Condition("Available"), "True/Serving") << i;
    ASSERT_EQ(StatesOf(sim), "1 Serving, 2 Starting") << i;
  }
  EXPECT_GT(EpochOf(sim, 1), before);
}

TEST(Pools, ServeSideBySideWithMembersAndEpochsOfTheirOwn) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  ExpectServes(sim, 1, 1, 2);
  ExpectServes(sim, 2, 1, 2);
  EXPECT_EQ(TopologyOf(sim, 2)->metadata.name, TopologyOf(sim, 1)->metadata.name + "-2");
  EXPECT_EQ(StatesOf(sim), "1 Serving, 2 Serving");
  const Node service = sim.Service();
  EXPECT_EQ(IntegerAt(service, {"status", "desiredPools"}), 2);
  EXPECT_EQ(IntegerAt(RoleOf(service, Role::kAttention), {"desiredInstances"}), 2);
  EXPECT_EQ(TextAt(RoleOf(service, Role::kExperts), {"ready"}), "4/4");
  // Budgets hold the pods of both.
  const auto budget = sim.Get(kDisruptionBudgets, "demo-experts");
  ASSERT_TRUE(budget);
  EXPECT_EQ(IntegerAt(*budget, {"spec", "minAvailable"}), 4);
}

TEST(Pools, TheStatusHasTheExchangeOfEach) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(120));
  const Node service = sim.Service();
  const Node* const pools = FindAt(service, {"status", "pools"});
  ASSERT_TRUE(pools != nullptr && pools->items.size() == 2);
  for (const Node& pool : pools->items) {
    EXPECT_EQ(TextAt(pool, {"exchangeMode"}), "Direct");
    EXPECT_EQ(TextAt(pool, {"gate"}), "Experts");
    EXPECT_FALSE(TextAt(pool, {"exchangeReason"}).empty());
    EXPECT_EQ(TextAt(pool, {"placementHash"}).size(), 16u);
  }
  const std::optional<MoETopology> second = TopologyOf(sim, 2);
  EXPECT_TRUE(
      second->spec.committed->sha256->starts_with(TextAt(pools->items[1], {"placementHash"})));
}

TEST(Pools, GatewaysFindEachByAServiceOfItsOwn) {
  SimulatedService sim;
  sim.Apply(1, 1, "  pools: 2\n");
  sim.RunUntil("Ready");
  EXPECT_TRUE(Has(GatewayArguments(sim), "--member=demo-pool-{pool}:9000"));
  EXPECT_TRUE(Has(GatewayArguments(sim), "--pools=8"));
  for (const int pool : {1, 2}) {
    const auto service = sim.Get(kServices, PoolName("demo", pool));
    ASSERT_TRUE(service) << pool;
    EXPECT_EQ(TextAt(*service, {"spec", "selector", kPoolLabel}), std::to_string(pool));
    for (const Node& pod : sim.List(kPods)) {
      if (TextAt(pod, {"metadata", "labels", kRoleLabel}).empty()) continue;
      EXPECT_FALSE(TextAt(pod, {"metadata", "labels", kPoolLabel}).empty());
    }
  }
}

TEST(Pools, AServiceThatNamesNoneIsAsBefore) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 2);
  EXPECT_TRUE(Has(GatewayArguments(sim), "--member=demo-members:9000"));
  for (const std::string& one : GatewayArguments(sim)) EXPECT_FALSE(one.starts_with("--pools"));
  for (const Node& pod : sim.List(kPods)) {
    EXPECT_TRUE(TextAt(pod, {"metadata", "labels", kPoolLabel}).empty());
  }
  EXPECT_FALSE(sim.Get(kServices, PoolName("demo", 1)));
  EXPECT_EQ(FindAt(sim.Service(), {"status", "desiredPools"}), nullptr);
}

TEST(Pools, OneThatIsAddedLeavesTheFirstAndTheGatewaysAsTheyAre) {
  SimulatedService sim;
  sim.Apply(2, 2, "  pools: 1\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const int64_t epoch = EpochOf(sim, 1);
  const Pods before = PodsOfPool(sim, 1);
  const Node gateway = *FindAt(*sim.Get(kDeployments, "demo-gateway"), {"spec"});
  sim.Patch(R"({"spec":{"pools":2}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  EXPECT_EQ(EpochOf(sim, 1), epoch);
  EXPECT_EQ(PodsOfPool(sim, 1), before);
  EXPECT_EQ(*FindAt(*sim.Get(kDeployments, "demo-gateway"), {"spec"}), gateway);
  ExpectServes(sim, 2, 2, 2);
}

TEST(Pools, OlderPodsGetTheirPoolsLabelAndStay) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const Pods before = PodsOfPool(sim, 1);
  const int64_t epoch = EpochOf(sim, 1);
  sim.Patch(R"({"spec":{"pools":2}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  EXPECT_EQ(PodsOfPool(sim, 1), before);
  EXPECT_EQ(EpochOf(sim, 1), epoch);
  ExpectServes(sim, 2, 1, 2);
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) EXPECT_TRUE(pod.has_pool_label) << pod.name;
  }
}

// Looks at every step that a pod of pool 2 goes only after the members of its epoch were released.
class DrainWatch {
 public:
  explicit DrainWatch(SimulatedService& sim) : sim_(sim), pods_(PodsOfPool(sim, 2)) {
    sim.on_step = [this] { Look(); };
  }
  ~DrainWatch() {
    sim_.on_step = [] {};
  }
  bool has_drained() const { return has_drained_; }

 private:
  void Look() {
    Pods there;
    for (const Node& pod : sim_.List(kPods)) {
      if (FindAt(pod, {"metadata", "deletionTimestamp"}) == nullptr) {
        there.insert(std::string(UidOf(pod)));
      }
    }
    const bool are_whole = std::ranges::includes(there, pods_);
    if (!are_whole && !has_gone_) {
      has_gone_ = true;
      // One call ends the taking of requests, the next one gives the rest back.
      EXPECT_GE(sim_.workers.drains(), 2) << "a pod goes before its answers had time";
    }
    has_drained_ |= StatesOf(sim_).find("2 Draining") != std::string::npos;
  }

  SimulatedService& sim_;
  const Pods pods_;
  bool has_gone_ = false;
  bool has_drained_ = false;
};

TEST(Pools, OneBeyondTheWantedNumberFinishesItsAnswersAndGoes) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 2\n  rollout: {drainSeconds: 30}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const int64_t first = EpochOf(sim, 1), second = EpochOf(sim, 2);
  const Pods stays = PodsOfPool(sim, 1);
  {
    const DrainWatch watch(sim);
    sim.Patch(R"({"spec":{"pools":1}})");
    sim.Run(Seconds(3));
    EXPECT_TRUE(sim.Get(kServices, PoolName("demo", 2))) << "its members still answer";
    EXPECT_EQ(sim.Condition("Available"), "True/Serving");
    EXPECT_EQ(sim.Condition("Progressing"), "True/Working");
    EXPECT_NE(sim.MessageOf("Progressing").find("pool 2 drains: 3 pods are left"),
              std::string::npos)
        << sim.MessageOf("Progressing");
    sim.Run(Seconds(60));
    EXPECT_TRUE(watch.has_drained());
  }
  EXPECT_EQ(sim.Condition("Progressing"), "True/Complete") << sim.MessageOf("Progressing");
  EXPECT_EQ(PodsOfPool(sim, 2), Pods());
  EXPECT_EQ(PodsOfPool(sim, 1), stays);
  EXPECT_EQ(EpochOf(sim, 1), first);
  EXPECT_EQ(StatesOf(sim), "1 Serving");
  EXPECT_EQ(TextAt(RoleOf(sim.Service(), Role::kExperts), {"ready"}), "2/2");
  EXPECT_EQ(IntegerAt(*sim.Get(kDisruptionBudgets, "demo-experts"), {"spec", "minAvailable"}), 2);
  EXPECT_EQ(TopologyOf(sim, 2)->spec.ended_epoch, second);
  EXPECT_EQ(sim.op().CountEvents("TopologyEnded"), 1);
  EXPECT_FALSE(sim.Get(kServices, PoolName("demo", 2)));
  EXPECT_TRUE(sim.Get(kServices, PoolName("demo", 1)));

  // The number of an epoch is used once: gateways would take a lower one for an old one.
  sim.Patch(R"({"spec":{"pools":2}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  EXPECT_GT(EpochOf(sim, 2), second);
  ExpectServes(sim, 2, 1, 2);
  EXPECT_EQ(EpochOf(sim, 1), first);
}

TEST(Pools, ADrainWithoutAllMembersWaitsForNoAnswers) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 2\n  rollout: {drainSeconds: 3000}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.workers.answers_last = Seconds(10000);
  sim.Patch(R"({"spec":{"pools":1}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(StatesOf(sim), "1 Serving, 2 Draining");
  sim.cluster.Crash(ExpertsOfPool2(sim).name);
  sim.Run(Seconds(60));
  EXPECT_EQ(PodsOfPool(sim, 2), Pods()) << sim.MessageOf("Progressing");
  EXPECT_EQ(StatesOf(sim), "1 Serving");
}

TEST(Pools, TheStatusOfAServiceThatNamesThemNoMoreIsAsWithout) {
  SimulatedService sim;
  sim.Apply(1, 1, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"pools":null}})");
  sim.Run(Seconds(60));
  EXPECT_EQ(PodsOfPool(sim, 2), Pods());
  EXPECT_EQ(FindAt(sim.Service(), {"status", "pools"}), nullptr);
  EXPECT_EQ(FindAt(sim.Service(), {"status", "desiredPools"}), nullptr);
}

TEST(Pools, AnotherLeaderCompletesADrain) {
  for (const double after : {0.5, 1.5, 3.0, 6.0, 12.0}) {
    SCOPED_TRACE(after);
    SimulatedService sim;
    sim.Apply(1, 2, "  pools: 2\n  rollout: {drainSeconds: 10}\n");
    sim.RunUntil("Ready");
    sim.Run(Seconds(2));
    sim.Patch(R"({"spec":{"pools":1}})");
    sim.Run(Seconds(after));
    sim.RestartOperator();
    sim.Run(Seconds(60));
    EXPECT_EQ(PodsOfPool(sim, 2), Pods());
    EXPECT_EQ(sim.Condition("Progressing"), "True/Complete") << sim.MessageOf("Progressing");
    ExpectServes(sim, 1, 1, 2);
  }
}

TEST(Pools, TheLossOfAMemberDisturbsNoOther) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const int64_t first = EpochOf(sim, 1), second = EpochOf(sim, 2);
  sim.workers.LoseEpochOf(InstanceOf(ExpertsOfPool2(sim)), "connection reset");
  sim.on_step = [&] {
    EXPECT_EQ(EpochOf(sim, 1), first);
    EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  };
  sim.Run(Seconds(30));
  sim.on_step = [] {};
  EXPECT_GT(EpochOf(sim, 2), second);
  ExpectServes(sim, 1, 1, 2);
  ExpectServes(sim, 2, 1, 2);
  EXPECT_EQ(sim.Condition("Ready"), "True/AsWanted") << sim.MessageOf("Ready");
}

TEST(Pools, OneThatDoesNotServeIsNamed) {
  SimulatedService sim;
  sim.Apply(1, 1, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.workers.prepare_fails = Unavailable("no route");
  for (const PodSeen& pod : sim.Pods(Role::kExperts)) {
    if (pod.pool == 2) sim.workers.LoseEpochOf(InstanceOf(pod), "connection reset");
  }
  sim.Run(Seconds(15));
  EXPECT_EQ(sim.Condition("TopologyReady").substr(0, 6), "False/");
  EXPECT_TRUE(sim.MessageOf("TopologyReady").starts_with("pool 2: "))
      << sim.MessageOf("TopologyReady");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(StatesOf(sim), "1 Serving, 2 Lost");
}

TEST(Pools, EachIsResizedAndRolledLikeAService) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"roles":{"attention":{"replicas":2},"experts":{"replicas":3}}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  ExpectServes(sim, 1, 2, 3);
  ExpectServes(sim, 2, 2, 3);
  Pods before = PodsOfPool(sim, 1);
  before.merge(PodsOfPool(sim, 2));
  sim.Patch(R"({"spec":{"image":"worker:2"}})");
  sim.RunUntil("Ready", Seconds(300));
  sim.Run(Seconds(5));
  ExpectServes(sim, 1, 2, 3);
  ExpectServes(sim, 2, 2, 3);
  Pods after = PodsOfPool(sim, 1);
  after.merge(PodsOfPool(sim, 2));
  for (const std::string& uid : after) EXPECT_FALSE(before.contains(uid));
}

TEST(Pools, AllSleepAndWake) {
  SimulatedService sim;
  sim.Apply(1, 1, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(60));
  EXPECT_EQ(PodsOfPool(sim, 1), Pods());
  EXPECT_EQ(PodsOfPool(sim, 2), Pods());
  sim.Patch(R"({"spec":{"suspend":false}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  ExpectServes(sim, 1, 1, 1);
  ExpectServes(sim, 2, 1, 1);
}

TEST(Pools, AreAsManyAsBeforeWhilePausedOrRefused) {
  SimulatedService sim;
  sim.Apply(1, 1, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.Patch(R"({"spec":{"pools":1,"paused":true}})");
  sim.Run(Seconds(30));
  ExpectServes(sim, 2, 1, 1);
  // The last spec with which all served stays in force.
  sim.Patch(R"({"spec":{"pools":3,"paused":false,"roles":{"attention":{"replicas":null,)"
            R"("scaling":{"mode":"External"}}}}})");
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Condition("Stalled"), "True/NotSupported");
  EXPECT_NE(sim.MessageOf("Stalled").find("spec.pools"), std::string::npos)
      << sim.MessageOf("Stalled");
  ExpectServes(sim, 1, 1, 1);
  ExpectServes(sim, 2, 1, 1);
}

TEST(Pools, ANewModelIsRefusedBesideTheOldOneAndRecreatesAll) {
  SimulatedService sim;
  sim.Apply(1, 1, "  pools: 2\n  rollout: {type: SideBySide, drainSeconds: 10}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const int64_t second = EpochOf(sim, 2);
  sim.Patch(R"({"spec":{"model":{"dtype":"Float16"}}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("Stalled"), "True/NotSupported") << sim.MessageOf("Stalled");
  EXPECT_EQ(EpochOf(sim, 2), second);
  sim.Patch(R"({"spec":{"rollout":{"type":"Recreate"}}})");
  sim.RunUntil("Ready", Seconds(300));
  sim.Run(Seconds(5));
  ExpectServes(sim, 1, 1, 1);
  ExpectServes(sim, 2, 1, 1);
  EXPECT_GT(EpochOf(sim, 2), second);
}

TEST(Pools, PassesWithoutAChangeDoNothing) {
  SimulatedService sim;
  sim.Apply(1, 2, "  pools: 3\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
  const size_t prepares = static_cast<size_t>(sim.workers.prepares());
  const std::string version(ResourceVersionOf(sim.Service()));
  const size_t pods = sim.cluster.pods_ever().size();
  sim.Run(Seconds(50));
  EXPECT_EQ(static_cast<size_t>(sim.workers.prepares()), prepares);
  EXPECT_EQ(ResourceVersionOf(sim.Service()), version);
  EXPECT_EQ(sim.cluster.pods_ever().size(), pods);
}

}  // namespace
}  // namespace janus::control
