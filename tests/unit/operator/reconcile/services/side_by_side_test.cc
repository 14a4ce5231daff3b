// Rollout SideBySide: a service changes its model, and the new one starts beside the old, in
// simulated time.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "operator/api/parse.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;
constexpr const char* kOtherDtype = R"({"spec":{"model":{"dtype":"Float16"}}})";
constexpr const char* kOtherModel =
    R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/other"}}}}})";
constexpr const char* kOldModel =
    R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/demo"}}}}})";
constexpr const char* kSideBySide = "  rollout: {type: SideBySide, drainSeconds: 60}\n";

// A serving service, checked at every step: it stays Available, no epoch has members of two models,
// and no number is used twice.
class SideBySideTest : public testing::Test {
 protected:
  void Serve(int attention, int experts, const std::string& more = kSideBySide) {
    sim_.planner.digest_of = {{"/models/other", "digest-2"}};
    sim_.Apply(attention, experts, more);
    sim_.RunUntil("Ready");
    sim_.Run(Seconds(2));
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      for (const PodSeen& pod : sim_.Pods(role)) old_.insert(pod.uid);
    }
    before_ = sim_.Topology()->metadata.name;
    sim_.on_step = [this] { Look(); };
  }
  ~SideBySideTest() override {
    sim_.on_step = [] {};
  }

  std::vector<MoETopology> Topologies() {
    std::vector<MoETopology> out;
    for (const Node& node : sim_.List(kTopologies)) out.push_back(ParseMoETopology(node).object);
    return out;
  }
  void Look() {
    const std::string says = sim_.Condition("Progressing");
    if (progress_.empty() || progress_.back() != says) progress_.push_back(says);
    std::set<int64_t> numbers;
    for (const MoETopology& topology : Topologies()) {
      const auto& committed = topology.spec.committed;
      if (!committed) continue;
      EXPECT_TRUE(numbers.insert(committed->epoch).second) << "a number that was given twice";
      size_t of_old = 0;
      for (const TopologyInstance& one : committed->instances) of_old += old_.contains(one.pod_uid);
      if (topology.metadata.name == before_) continue;
      EXPECT_EQ(of_old, 0u) << "a mixed epoch";
    }
    if (is_undisturbed_) {
      EXPECT_EQ(sim_.Condition("Available"), "True/Serving") << sim_.MessageOf("Available");
    }
  }
  bool OldPodsAreThere() {
    const std::vector<Node> pods = sim_.List(kPods);
    return std::any_of(pods.begin(), pods.end(),
                       [&](const Node& pod) { return old_.contains(std::string(UidOf(pod))); });
  }
  std::string GatewaysModel() {
    const Node gateway = *sim_.Get(kDeployments, "demo-gateway");
    for (const Node& one : FindAt(gateway, {"spec", "template", "spec", "volumes"})->items) {
      if (const auto path = TextAt(one, {"hostPath", "path"}); !path.empty()) {
        return std::string(path);
      }
    }
    return "";
  }
  // One topology, with new pods only.
  void ExpectReplaced(int attention, int experts) {
    sim_.RunUntil("Ready");
    sim_.Run(Seconds(90));
    sim_.ExpectWhole(attention, experts);
    EXPECT_FALSE(OldPodsAreThere());
    EXPECT_EQ(sim_.Condition("Progressing"), "True/Complete") << sim_.MessageOf("Progressing");
  }

  SimulatedService sim_;
  std::set<std::string> old_;
  std::string before_;
  std::vector<std::string> progress_;
  bool is_undisturbed_ = true;
};

TEST_F(SideBySideTest, TheNewModelComesBesideTheOldOneWhichGoesWhenItServes) {
  Serve(2, 3);
  sim_.Patch(kOtherModel);
  sim_.Run(Seconds(2));
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Replacing") << sim_.MessageOf("Progressing");
  EXPECT_EQ(sim_.Condition("TopologyReady").substr(0, 6), "False/");
  EXPECT_EQ(GatewaysModel(), "/models/demo") << "the other one does not serve yet";
  ASSERT_EQ(Topologies().size(), 2u);
  sim_.RunUntil("Ready");
  EXPECT_TRUE(OldPodsAreThere()) << "they have answers to end";
  sim_.Run(Seconds(2));
  EXPECT_EQ(GatewaysModel(), "/models/other");
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Replacing");
  ExpectReplaced(2, 3);
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 10u);
  EXPECT_EQ(sim_.Topology()->spec.committed->epoch, 2) << "above the old one's";
  EXPECT_NE(sim_.Topology()->metadata.name, before_);
  EXPECT_EQ(sim_.op().CountEvents("TopologyEnded"), 1);
  EXPECT_EQ(sim_.workers.drains(), 2) << "the answers, then the rest";
  EXPECT_EQ(progress_, (std::vector<std::string>{"True/Replacing", "True/Complete"}));
}

// Members of a role refuse each other if their caches differ.
TEST_F(SideBySideTest, ACacheInFp8IsAnotherModel) {
  Serve(2, 2);
  EXPECT_EQ(TextAt(sim_.Service(), {"status", "effective", "kvCacheDtype"}), "BFloat16");
  sim_.Patch(R"({"spec":{"roles":{"attention":{"kvCache":{"dtype":"FP8"}}}}})");
  sim_.Run(Seconds(2));
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Replacing") << sim_.MessageOf("Progressing");
  ExpectReplaced(2, 2);
  EXPECT_NE(sim_.Topology()->metadata.name, before_);
  EXPECT_EQ(TextAt(sim_.Service(), {"status", "effective", "kvCacheDtype"}), "FP8");
}

TEST_F(SideBySideTest, OtherArithmeticIsAnotherModel) {
  Serve(1, 2, "");  // Auto
  sim_.Patch(kOtherDtype);
  ExpectReplaced(1, 2);
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 6u);
  EXPECT_EQ(sim_.Topology()->spec.committed->epoch, 2);
}

// Lost pods are replaced under the last spec that served.
TEST_F(SideBySideTest, WithoutRoomForBothTheOldModelGoesOnAndIsMended) {
  Serve(2, 2);
  sim_.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  sim_.Patch(kOtherModel);
  sim_.Run(Seconds(20));
  EXPECT_EQ(sim_.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Replacing");
  is_undisturbed_ = false;
  std::string lost;
  for (const PodSeen& pod : sim_.Pods(Role::kAttention)) {
    if (old_.contains(pod.uid)) lost = pod.name;
  }
  ASSERT_TRUE(sim_.user.Delete(kPods, {"default", lost}, {}, kLimits).ok());
  sim_.Run(Seconds(20));
  is_undisturbed_ = true;
  sim_.Run(Seconds(20));
  bool has_old = false;
  for (const MoETopology& topology : Topologies()) {
    if (topology.metadata.name != before_) {
      EXPECT_FALSE(topology.spec.committed);
      continue;
    }
    has_old = true;
    EXPECT_GT(topology.spec.committed->epoch, 1) << "whole again";
    EXPECT_EQ(topology.spec.committed->instances.size(), 4u);
    for (const TopologyInstance& one : topology.spec.committed->instances) {
      old_.insert(one.pod_uid);
    }
  }
  EXPECT_TRUE(has_old);
  EXPECT_EQ(sim_.op().CountEvents("TopologyEnded"), 0);
  sim_.cluster.MakeRoom("experts");
  ExpectReplaced(2, 2);
}

TEST_F(SideBySideTest, UntilTheNewModelServesTheSpecMayGoBack) {
  Serve(2, 2);
  const std::set<std::string> before = old_;
  sim_.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  sim_.Patch(kOtherModel);
  sim_.Run(Seconds(10));
  ASSERT_EQ(Topologies().size(), 2u);
  sim_.Patch(kOldModel);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(10));
  sim_.ExpectWhole(2, 2);
  EXPECT_EQ(sim_.Topology()->metadata.name, before_);
  EXPECT_EQ(sim_.Topology()->spec.committed->epoch, 1) << "nothing of it has changed";
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim_.Pods(role)) EXPECT_TRUE(before.contains(pod.uid));
  }
}

// From now on the old model is just another one: its former state is gone.
TEST_F(SideBySideTest, AfterwardsGoingBackIsAnotherChange) {
  Serve(1, 2);
  sim_.Patch(kOtherModel);
  sim_.RunUntil("Ready");
  ASSERT_TRUE(OldPodsAreThere());
  sim_.Patch(kOldModel);
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.Condition("Available"), "True/Serving");
  sim_.RunUntil("Ready", Seconds(300));
  sim_.Run(Seconds(90));
  sim_.ExpectWhole(1, 2);
  EXPECT_FALSE(OldPodsAreThere());
  EXPECT_EQ(sim_.cluster.pods_ever().size(), 9u) << "three times three";
  EXPECT_EQ(sim_.Topology()->spec.committed->epoch, 3);
}

// The record still has the first model's name, so that name is taken.
TEST_F(SideBySideTest, AfterARecreationTheNameOfTheRecordMayBeTheNewModels) {
  Serve(1, 2, "  rollout: {type: Recreate, drainSeconds: 60}\n");
  is_undisturbed_ = false;
  sim_.on_step = [] {};
  sim_.Patch(kOtherModel);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.Topology()->metadata.name, before_) << "it holds the other model now";
  sim_.Patch(
      R"({"spec":{"rollout":{"type":"SideBySide"},"model":{"source":{"hostPath":{"path":"/models/demo"}}}}})");
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(90));
  sim_.ExpectWhole(1, 2);
  EXPECT_EQ(sim_.Topology()->metadata.name, before_ + "-b");
  EXPECT_EQ(sim_.Topology()->spec.committed->epoch, 3);
}

TEST_F(SideBySideTest, WhatIsLostAfterTheEndIsNotWaitedFor) {
  Serve(1, 2);
  sim_.Patch(kOtherModel);
  sim_.RunUntil("Ready");
  std::string lost;
  for (const PodSeen& pod : sim_.Pods(Role::kExperts)) {
    if (old_.contains(pod.uid)) lost = pod.name;
  }
  ASSERT_TRUE(sim_.user.Delete(kPods, {"default", lost}, {}, kLimits).ok());
  sim_.Run(Seconds(15));
  EXPECT_FALSE(OldPodsAreThere()) << "long before drainSeconds";
  sim_.ExpectWhole(1, 2);
}

TEST_F(SideBySideTest, AServiceThatIsSuspendedMeanwhileKeepsNeitherAndWakesUpWithTheNewOne) {
  for (const Seconds after : {Seconds(1), Seconds(30)}) {
    SCOPED_TRACE(after.count());
    SimulatedService sim;
    sim.planner.digest_of = {{"/models/other", "digest-2"}};
    sim.Apply(1, 2, kSideBySide);
    sim.RunUntil("Ready");
    sim.Run(Seconds(2));
    sim.Patch(kOtherModel);
    sim.Run(after);
    sim.Patch(R"({"spec":{"suspend":true}})");
    sim.Run(Seconds(30));
    EXPECT_TRUE(sim.List(kPods).empty());
    EXPECT_EQ(sim.List(kTopologies).size(), 1u);
    sim.Patch(R"({"spec":{"suspend":false}})");
    sim.RunUntil("Ready");
    sim.Run(Seconds(5));
    sim.ExpectWhole(1, 2);
  }
}

}  // namespace
}  // namespace janus::control
