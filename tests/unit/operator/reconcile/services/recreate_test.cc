// Rollout Recreate: a service changes its model, in simulated time.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "tests/support/kube/ending_api.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

constexpr const char* kOtherDtype = R"({"spec":{"model":{"dtype":"Float16"}}})";
constexpr const char* kOtherModel =
    R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/other"}}}}})";
constexpr const char* kRecreate = "  rollout: {type: Recreate, drainSeconds: 60}\n";

// Checks that no epoch has members of both models, and that nothing is proposed while old pods
// exist.
class Watcher {
 public:
  explicit Watcher(SimulatedService& sim) : sim_(sim) {
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      for (const PodSeen& pod : sim.Pods(role)) old_.insert(pod.uid);
    }
    sim.on_step = [this] { Look(); };
  }
  ~Watcher() {
    sim_.on_step = [] {};
  }

  const std::vector<std::string>& progress() const { return progress_; }
  const std::set<std::string>& old() const { return old_; }
  std::string gateway_model;  // while the old model exists, or no epoch serves

 private:
  void Look() {
    const std::string says = sim_.Condition("Progressing");
    if (progress_.empty() || progress_.back() != says) progress_.push_back(says);
    std::optional<MoETopology> topology = sim_.Topology();
    ASSERT_TRUE(topology);
    const bool has_ended = TakeEnded(*topology).has_value();
    bool old_there = false;
    for (const Node& pod : sim_.List(kPods)) old_there |= old_.contains(std::string(UidOf(pod)));
    for (const std::optional<TopologyRecord>* record :
         {&topology->spec.committed, &topology->spec.proposed}) {
      if (!*record) continue;
      size_t of_old = 0;
      for (const TopologyInstance& one : (*record)->instances) of_old += old_.contains(one.pod_uid);
      EXPECT_TRUE(of_old == 0 || of_old == (*record)->instances.size()) << "a mixed epoch";
      if (of_old == 0) {
        EXPECT_FALSE(old_there) << "another epoch while old pods are there";
      }
    }
    if (has_ended || old_there) {
      const Node gateway = *sim_.Get(kDeployments, "demo-gateway");
      const std::string template_now = ModelFolderOf(gateway);
      if (gateway_model.empty()) gateway_model = template_now;
      EXPECT_EQ(template_now, gateway_model) << "a gateway of a model that nobody serves yet";
    }
  }
  static std::string ModelFolderOf(const Node& gateway) {
    const Node* volumes = FindAt(gateway, {"spec", "template", "spec", "volumes"});
    for (const Node& one : volumes->items) {
      if (const auto path = TextAt(one, {"hostPath", "path"}); !path.empty()) {
        return std::string(path);
      }
    }
    return "";
  }

  SimulatedService& sim_;
  std::set<std::string> old_;
  std::vector<std::string> progress_;
};

void ExpectNewPodsAlone(SimulatedService& sim, const Watcher& watcher) {
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) EXPECT_FALSE(watcher.old().contains(pod.uid));
  }
}

TEST(Recreate, TheOldModelDrainsAndGoesThenTheNewOneComes) {
  for (const char* edit : {kOtherDtype, kOtherModel}) {
    SCOPED_TRACE(edit);
    SimulatedService sim;
    sim.Apply(2, 3, kRecreate);
    sim.RunUntil("Ready");
    sim.Run(Seconds(2));
    Watcher watcher(sim);
    if (edit == kOtherModel) sim.planner.digest = "digest-2";
    sim.Patch(edit);
    sim.Run(Seconds(3));
    EXPECT_EQ(sim.Condition("Progressing"), "True/Recreating") << sim.MessageOf("Progressing");
    EXPECT_NE(sim.MessageOf("Progressing").find("60 s"), std::string::npos);
    EXPECT_EQ(sim.Condition("TopologyReady"), "False/Recreating");
    EXPECT_EQ(sim.Pods(Role::kAttention).size(), 2u) << "they have answers to end";
    EXPECT_EQ(sim.Pods(Role::kExperts).size(), 3u) << "and these are needed for them";
    sim.RunUntil("Ready");
    sim.Run(Seconds(5));
    sim.ExpectWhole(2, 3);
    ExpectNewPodsAlone(sim, watcher);
    EXPECT_EQ(sim.cluster.pods_ever().size(), 10u);
    EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
    EXPECT_EQ(sim.Topology()->spec.ended_epoch, 1);
    EXPECT_EQ(sim.op().CountEvents("TopologyEnded"), 1);
    EXPECT_EQ(sim.workers.drains(), 2) << "the answers, then the rest";
    EXPECT_EQ(watcher.progress().back(), "True/Complete");
    // The next change too, back to the first model.
    Watcher again(sim);
    sim.planner.digest = "digest-1";
    sim.Patch(edit == kOtherModel
                  ? R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/demo"}}}}})"
                  : R"({"spec":{"model":{"dtype":"Auto"}}})");
    sim.RunUntil("Ready");
    sim.Run(Seconds(5));
    sim.ExpectWhole(2, 3);
    ExpectNewPodsAlone(sim, again);
    EXPECT_EQ(sim.Topology()->spec.committed->epoch, 3);
  }
}

// No epoch is ended for a model that does not fit.
TEST(Recreate, WhatServesStaysWhereTheNewModelDoesNotFit) {
  for (
      const char* edit :
      {R"({"spec":{"roles":{"attention":{"kvCache":{"dtype":"FP8","size":"1Gi"}}}}})",
       R"({"spec":{"model":{"dtype":"Float16"},"roles":{"attention":{"kvCache":{"size":"1Gi"}}}}})"}) {
    SCOPED_TRACE(edit);
    SimulatedService sim;
    sim.planner.room.memory_bytes = int64_t{300} << 20;
    sim.Apply(2, 3, kRecreate);
    sim.RunUntil("Ready");
    sim.Run(Seconds(2));
    sim.Patch(edit);
    sim.Run(Seconds(120));
    EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
    EXPECT_EQ(sim.Condition("Available"), "True/Serving");
    sim.ExpectMembers(2, 3);
    EXPECT_EQ(sim.Topology()->spec.ended_epoch, 0);
    EXPECT_EQ(sim.op().CountEvents("TopologyEnded"), 0);
    sim.planner.room.memory_bytes = int64_t{8} << 30;
    sim.Patch(R"({"metadata":{"labels":{"a":"b"}}})");
    sim.RunUntil("Ready");
    sim.Run(Seconds(5));
    sim.ExpectWhole(2, 3);
    EXPECT_EQ(sim.Topology()->spec.ended_epoch, 1);
  }
}

// On a cluster the operator cannot read the model: until a pod of the new revision has reported it,
// the edit is an ordinary rollout.
TEST(Recreate, TheFirstPodThatTellsOfAnotherModelStays) {
  SimulatedService sim;
  sim.Apply(2, 3, kRecreate);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  Watcher watcher(sim);
  sim.planner.awaited =
      "the memory for the model is not known yet: waiting for pod demo-attention-x to report its "
      "model and memory";
  sim.Patch(kOtherModel);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 7u) << "one of each role";
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  sim.planner.awaited.clear();
  sim.planner.digest = "digest-2";
  sim.Patch(R"({"metadata":{"labels":{"a":"b"}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(2, 3);
  ExpectNewPodsAlone(sim, watcher);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 10u);
}

// It has the old model, although it is in no epoch yet.
TEST(Recreate, APodThatWasStillOnItsWayGoesToo) {
  SimulatedService sim;
  sim.Apply(1, 2, kRecreate);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":3}}}})");
  sim.Run(Seconds(0.5));
  ASSERT_EQ(sim.Pods(Role::kExperts).size(), 3u);
  ASSERT_EQ(sim.Topology()->spec.committed->epoch, 1);
  Watcher watcher(sim);
  sim.planner.digest = "digest-2";
  sim.Patch(kOtherModel);
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 3);
  ExpectNewPodsAlone(sim, watcher);
}

TEST(Recreate, AnswersHaveUntilTheDeadlineAndNoLonger) {
  SimulatedService sim;
  sim.workers.answers_last = Seconds(10000);
  sim.Apply(1, 2, kRecreate);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  Watcher watcher(sim);
  sim.Patch(kOtherDtype);
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  // A new leader uses the time of the decision.
  sim.RestartOperator();
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 1u);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  sim.RunUntil("Ready", Seconds(30));
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
  ExpectNewPodsAlone(sim, watcher);
}

TEST(Recreate, WhatCanRollRolls) {
  SimulatedService sim;
  sim.Apply(2, 2, kRecreate);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  for (const char* edit :
       {R"({"spec":{"image":"worker:2"}})", R"({"spec":{"roles":{"experts":{"replicas":3}}}})",
        R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/copy"}}}}})"}) {
    sim.Patch(edit);
    sim.RunUntil("Ready");
    sim.Run(Seconds(5));
  }
  sim.ExpectWhole(2, 3);
  EXPECT_EQ(sim.Topology()->spec.ended_epoch, 0);
  EXPECT_EQ(sim.op().CountEvents("TopologyEnded"), 0);
  EXPECT_EQ(sim.workers.drains(), 0);
}

// Otherwise an edit could end a service unintentionally.
TEST(Recreate, WithoutItTheEditIsRefusedAndSaysWhatToWrite) {
  SimulatedService sim;
  sim.Apply(1, 2, "  rollout: {type: Rolling}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.Patch(kOtherDtype);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("Stalled"), "True/NotSupported");
  EXPECT_NE(sim.MessageOf("Stalled").find("; Recreate stops"), std::string::npos);
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1);
  sim.Patch(R"({"spec":{"paused":true,"rollout":{"type":"Recreate"}}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Topology()->spec.ended_epoch, 0) << "paused";
  sim.Patch(R"({"spec":{"paused":false}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Topology()->spec.ended_epoch, 1);
}

TEST(Recreate, WhatIsWantedMayChangeBackWhileTheOldOneGoes) {
  SimulatedService sim;
  sim.Apply(1, 2, kRecreate);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  Watcher watcher(sim);
  sim.Patch(kOtherDtype);
  sim.Run(Seconds(3));
  sim.Patch(R"({"spec":{"model":{"dtype":"Auto"}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
  ExpectNewPodsAlone(sim, watcher);  // the ended epoch is over
}

TEST(Recreate, WorkersThatAnswerNobodyGoAllTheSame) {
  SimulatedService sim;
  sim.Apply(1, 2, kRecreate);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  Watcher watcher(sim);
  sim.Patch(kOtherDtype);
  sim.Run(Seconds(1));
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) sim.workers.Of(InstanceOf(pod)).is_hung = true;
  }
  sim.RunUntil("Ready", Seconds(200));
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
}

// Killed before and after every API call: its successor continues.
TEST(Recreate, ItGoesOnWhereverTheOperatorIsEnded) {
  for (const bool is_done : {false, true}) {
    for (size_t at = 0;; ++at) {
      SCOPED_TRACE("killed at call " + std::to_string(at) + (is_done ? ", done" : ", not done"));
      SimulatedService sim;
      sim.Apply(1, 2, kRecreate);
      sim.RunUntil("Ready");
      sim.Run(Seconds(2));
      EndingApi ending(sim.operator_client, at, is_done);
      sim.RestartOperator(&ending);
      Watcher watcher(sim);
      const std::function<void()> look = sim.on_step;
      bool was_killed = false;
      sim.on_step = [&] {
        look();
        if (!ending.has_ended() || was_killed) return;
        was_killed = true;
        sim.RestartOperator();
      };
      sim.Patch(kOtherDtype);
      sim.RunUntil("Ready");
      sim.Run(Seconds(10));
      sim.ExpectWhole(1, 2);
      ExpectNewPodsAlone(sim, watcher);
      EXPECT_EQ(sim.cluster.pods_ever().size(), 6u);
      EXPECT_EQ(sim.workers.refused(), 0);
      EXPECT_EQ(sim.Topology()->spec.ended_epoch, 1);
      if (!was_killed) {
        sim.RestartOperator();  // ends its running calls
        EXPECT_GT(at, 20u);
        break;
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace janus::control
