// A service whose pods have several instances, on the store in this process, in simulated time.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/roster.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

// Sets spec.roles.<role>.<field>.
void Set(SimulatedService& sim, Role role, const std::string& field, const std::string& value) {
  sim.Patch(R"({"spec":{"roles":{")" + std::string(ToString(role)) + R"(":{")" + field +
            "\":" + value + "}}}}");
}

std::vector<int> SizesOf(SimulatedService& sim, Role role) {
  std::vector<int> out;
  for (const PodSeen& pod : sim.Pods(role)) out.push_back(pod.instances);
  std::sort(out.rbegin(), out.rend());
  return out;
}

// 3 attention instances in pods of at most 2, and 6 expert instances in pods of at most 4.
void Begin(SimulatedService& sim) {
  sim.Apply(3, 6);
  Set(sim, Role::kAttention, "instancesPerPod", "2");
  Set(sim, Role::kExperts, "instancesPerPod", "4");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
}

// Another count of expert instances, until all serve.
void Resize(SimulatedService& sim, int experts) {
  Set(sim, Role::kExperts, "replicas", std::to_string(experts));
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
}

TEST(SeveralInstances, MachinesAreNodesOfTheExchangeWherePodsShareMemory) {
  SimulatedService sim;
  sim.options.host_paths = {"/models", "/run/janus"};
  sim.RestartOperator();
  sim.Apply(2, 3);
  sim.Patch(R"({"spec":{"exchange":{"hostShared":true}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(60));
  sim.ExpectWhole(2, 3);
  const Topology& topology = sim.workers.last();
  EXPECT_EQ(topology.mode, janus::ExchangeMode::kTwoPhaseParallel);
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    for (const Instance& one : *role) {
      EXPECT_TRUE(one.node.starts_with("machine/")) << one.node;
      EXPECT_EQ(one.domain, one.node);
      EXPECT_NE(one.exchange_address.find(",unix:/run/janus-host/"), std::string::npos);
    }
  }
  for (const Node& pod : sim.List(kPods)) {
    const std::string text = WriteJson(pod);
    if (TextAt(pod, {"metadata", "labels", kRoleLabel}).empty()) continue;
    EXPECT_NE(text.find(R"("hostPath":{"path":"/run/janus/)"), std::string::npos) << text;
    EXPECT_NE(text.find(R"("args":["share-folder","/run/janus-host"])"), std::string::npos);
  }
}

TEST(SeveralInstances, SharedMemoryOfAMachineNeedsAFolderThatTheOperatorAllows) {
  SimulatedService sim;
  sim.options.host_paths = {"/models"};
  sim.RestartOperator();
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"exchange":{"hostShared":true}}})");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim.MessageOf("Stalled").find("spec.exchange.hostShared: needs the folder /run/janus"),
            std::string::npos)
      << sim.MessageOf("Stalled");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving") << "what served goes on";
}

TEST(SeveralInstances, PodsAreNodesOfTheExchange) {
  SimulatedService sim;
  Begin(sim);
  sim.ExpectWhole(3, 6);
  EXPECT_EQ(SizesOf(sim, Role::kAttention), (std::vector{2, 1}));
  EXPECT_EQ(SizesOf(sim, Role::kExperts), (std::vector{4, 2}));

  const Topology& topology = sim.workers.last();
  EXPECT_EQ(topology.mode, janus::ExchangeMode::kTwoPhaseParallel);
  std::set<std::string> addresses, exchanges;
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    for (size_t rank = 0; rank < role->size(); ++rank) {
      const Instance& one = role->at(rank);
      addresses.insert(one.address);
      exchanges.insert(one.exchange_address);
      EXPECT_EQ(one.domain, one.node) << "they map the same memory";
      // Ranks of one pod follow each other.
      if (one.index > 0) {
        EXPECT_EQ(role->at(rank - 1).node, one.node);
      }
    }
  }
  EXPECT_EQ(addresses.size(), 9u);
  EXPECT_EQ(exchanges.size(), 9u);
  const Node service = sim.Service();
  const Node& experts = FindAt(service, {"status", "roles"})->items.at(1);
  EXPECT_EQ(TextAt(experts, {"ready"}), "6/6");
  EXPECT_EQ(IntegerAt(experts, {"instances"}), 6);
  EXPECT_EQ(IntegerAt(experts, {"readyInstances"}), 6);
  EXPECT_EQ(IntegerAt(experts, {"replicas"}), 2) << "pods";
}

TEST(SeveralInstances, APodHasTheArgumentsAndResourcesOfItsInstances) {
  SimulatedService sim;
  Begin(sim);
  Set(sim, Role::kExperts, "resources", R"({"limits":{"memory":"1500Mi","cpu":"1500m"}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(60));
  sim.ExpectWhole(3, 6);
  int looked_at = 0;
  for (const Node& pod : sim.List(kPods)) {
    const std::optional<PodSeen> seen = ReadPod(pod);
    if (!seen || seen->role != Role::kExperts) continue;
    ++looked_at;
    SCOPED_TRACE(seen->name);
    const Node& worker = FindAt(pod, {"spec", "containers"})->items.at(0);
    EXPECT_EQ(TextAt(worker, {"resources", "limits", "memory"}),
              std::to_string(seen->instances * (int64_t{1500} << 20)));
    EXPECT_EQ(TextAt(worker, {"resources", "limits", "cpu"}), seen->instances == 4 ? "6" : "3");
    const std::vector<Node>& arguments = worker.Find("args")->items;
    const std::string supervise = "--supervise=" + std::to_string(seen->instances);
    EXPECT_EQ(std::ranges::count(arguments, supervise, &Node::text), 1);
  }
  EXPECT_EQ(looked_at, 2);
}

TEST(SeveralInstances, ACountThatNoPodHasReplacesOnePod) {
  SimulatedService sim;
  Begin(sim);
  const std::vector<PodSeen> before = sim.Pods(Role::kExperts);
  Resize(sim, 5);
  sim.ExpectWhole(3, 5);
  EXPECT_EQ(SizesOf(sim, Role::kExperts), (std::vector{4, 1}));
  for (const PodSeen& pod : sim.Pods(Role::kExperts)) {
    if (pod.instances == 4) {
      EXPECT_EQ(pod.name, before[0].name) << "it stays";
    }
  }
  Resize(sim, 8);
  sim.ExpectWhole(3, 8);
  EXPECT_EQ(SizesOf(sim, Role::kExperts), (std::vector{4, 4}));
  Resize(sim, 4);
  sim.ExpectWhole(3, 4);
  EXPECT_EQ(sim.Pods(Role::kExperts).at(0).name, before[0].name);
}

// Losing the larger one of two pods leaves too few for a placement that survives another loss.
TEST(SeveralInstances, ASurvivablePlacementServesOnAfterTheLossOfItsLargestPod) {
  SimulatedService sim;
  sim.Apply(1, 6);
  Set(sim, Role::kExperts, "instancesPerPod", "4");
  Set(sim, Role::kExperts, "placement", R"({"survivable":true})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 6);
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  const PodSeen lost = sim.Pods(Role::kExperts)[0];
  ASSERT_EQ(lost.instances, 4);
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", lost.name}, {}, {}).ok());
  sim.Run(Seconds(60));
  const EpochRecord record = EpochRecordOf(*sim.Topology());
  EXPECT_EQ(record.committed->content.members.size(), 3u) << "one of attention, two of experts";
}

TEST(SeveralInstances, AnotherMaximumIsARollout) {
  SimulatedService sim;
  Begin(sim);
  Set(sim, Role::kExperts, "instancesPerPod", "2");
  sim.Run(Seconds(120));
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
  sim.ExpectWhole(3, 6);
  EXPECT_EQ(SizesOf(sim, Role::kExperts), (std::vector{2, 2, 2}));
  Set(sim, Role::kExperts, "instancesPerPod", "8");
  sim.Run(Seconds(120));
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
  sim.ExpectWhole(3, 6);
  EXPECT_EQ(SizesOf(sim, Role::kExperts), std::vector{6});
}

// Its supervisor has started it anew: it answers at the same address and knows no epoch.
TEST(SeveralInstances, AProcessThatIsReplacedInItsPodServesInTheNextEpoch) {
  SimulatedService sim;
  Begin(sim);
  const int64_t before = sim.Topology()->spec.committed->epoch;
  const PodSeen pod = sim.Pods(Role::kExperts)[0];
  sim.workers.LoseEpochOf(InstanceOf(pod, 0), "experts 1 is gone: it closed its connection");
  sim.workers.Of(InstanceOf(pod, 1)) = {};
  sim.Run(Seconds(15));
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, before + 1);
  sim.ExpectWhole(3, 6);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 4u) << "no pod is replaced";
}

TEST(SeveralInstances, AnInstanceThatStaysSilentIsLeftOutAndItsMatesServe) {
  SimulatedService sim;
  Begin(sim);
  const PodSeen pod = sim.Pods(Role::kExperts)[0];
  sim.workers.LoseEpochOf(InstanceOf(pod, 0), "experts 1: no answer");
  sim.workers.Of(InstanceOf(pod, 1)).is_hung = true;
  sim.Run(Seconds(40));
  const EpochRecord record = EpochRecordOf(*sim.Topology());
  EXPECT_EQ(record.committed->content.members.size(), 8u);
  EXPECT_FALSE(record.committed->content.members.contains(InstanceOf(pod, 1)));
  EXPECT_TRUE(record.committed->content.members.contains(InstanceOf(pod, 2)));
  EXPECT_NE(sim.Condition("Ready"), "True/AsWanted");
}

TEST(SeveralInstances, ALostPodIsReplacedByOneOfItsSize) {
  SimulatedService sim;
  Begin(sim);
  const PodSeen lost = sim.Pods(Role::kExperts)[1];
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", lost.name}, {}, {}).ok());
  sim.Run(Seconds(60));
  sim.RunUntil("Ready");
  sim.Run(Seconds(10));
  sim.ExpectWhole(3, 6);
  EXPECT_EQ(SizesOf(sim, Role::kExperts), (std::vector{4, 2}));
}

TEST(SeveralInstances, AnAutoscalerCountsPods) {
  SimulatedService sim;
  Begin(sim);
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":null,"scaling":{"mode":"External"}}}}})");
  sim.Run(Seconds(60));
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
  sim.ExpectWhole(3, 8);
  const auto scaler = [&] {
    return *sim.Get(kRoleScalers, RoleObjectName("demo", Role::kExperts));
  };
  EXPECT_EQ(IntegerAt(scaler(), {"spec", "replicas"}), 2);
  EXPECT_EQ(IntegerAt(scaler(), {"status", "replicas"}), 2);
  const ApiResult<Node> scaled = sim.user.Patch(
      kRoleScalers, {"default", RoleObjectName("demo", Role::kExperts)}, PatchKind::kMerge,
      Object({{"spec", Object({{"replicas", Node::Integer(1)}})}}), Subresource::kScale, {}, {});
  ASSERT_TRUE(scaled.ok()) << scaled.error().message;
  sim.Run(Seconds(2));
  sim.RunUntil("Ready");
  sim.Run(Seconds(20));
  sim.ExpectWhole(3, 4);
  EXPECT_EQ(IntegerAt(scaler(), {"status", "replicas"}), 1);
}

}  // namespace
}  // namespace janus::control
