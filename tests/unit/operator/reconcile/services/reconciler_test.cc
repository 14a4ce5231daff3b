// One service from creation to deletion, on the store in this process, in simulated time.

#include "operator/reconcile/reconciler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/status/status.h"
#include "tests/support/contains.h"
#include "tests/support/kube/faulty_api.h"
#include "tests/support/kube/passing_api.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

std::set<std::string> NamesOf(const std::vector<PodSeen>& pods) {
  std::set<std::string> out;
  for (const PodSeen& pod : pods) out.insert(pod.name);
  return out;
}

// The instances of the committed epoch.
std::set<InstanceId> MembersOf(SimulatedService& sim) {
  return EpochRecordOf(*sim.Topology()).committed->content.members;
}
int Members(SimulatedService& sim, Role role) {
  return static_cast<int>(std::ranges::count(MembersOf(sim), role, &InstanceId::role));
}

MoEService Fixed(int attention, int experts, int memory_percent) {
  MoEService service;
  service.metadata.name = "demo";
  service.spec.roles.attention.replicas = attention;
  service.spec.roles.experts.replicas = experts;
  service.spec.roles.attention.kv_cache.memory_percent = memory_percent;
  return service;
}

TEST(Reconciler, AServiceComesUpWholeAndSaysSo) {
  SimulatedService sim;
  sim.Apply(2, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(2, 3);
  for (const auto& [resource, name] : {std::pair{&kServices, "demo"},
                                       {&kServices, "demo-members"},
                                       {&kDeployments, "demo-gateway"},
                                       {&kServiceAccounts, "demo-worker"}}) {
    EXPECT_TRUE(sim.Get(*resource, name)) << name;
  }
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1);
  EXPECT_EQ(sim.workers.prepares(), 1) << "all pods came in with one epoch";

  const Node service = sim.Service();
  EXPECT_EQ(IntegerAt(service, {"status", "observedGeneration"}), 1);
  EXPECT_EQ(TextAt(service, {"status", "workerImage"}), "worker:1");
  EXPECT_EQ(TextAt(service, {"status", "effective", "modelName"}), "demo");
  EXPECT_EQ(IntegerAt(service, {"status", "topology", "epoch"}), 1);
  EXPECT_EQ(IntegerAt(service, {"status", "topology", "m"}), 2);
  EXPECT_EQ(IntegerAt(service, {"status", "topology", "n"}), 3);
  EXPECT_EQ(LastPodId(service, Role::kAttention), 2);
  EXPECT_EQ(LastPodId(service, Role::kExperts), 3);
  for (const Node& role : FindAt(service, {"status", "roles"})->items) {
    EXPECT_EQ(IntegerAt(role, {"readyReplicas"}), IntegerAt(role, {"desiredInstances"}))
        << "within two seconds of Ready";
  }
  for (const char* type : {"Ready", "Available", "Progressing", "AttentionReady", "ExpertsReady",
                           "TopologyReady", "ScalingReady", "CapacityAvailable"}) {
    EXPECT_TRUE(sim.Condition(type).starts_with("True/")) << type << sim.Condition(type);
  }
  EXPECT_EQ(sim.Condition("Stalled"), "False/Reconciling");
  EXPECT_GE(sim.op().CountEvents("TopologyCommitted"), 1);
  std::vector<std::string> made;
  for (const Happening& one : sim.op().events()) {
    if (one.reason == "Created") made.push_back(one.note);
  }
  ASSERT_EQ(made.size(), 4u) << "one for a pass's objects, one for each role's pods";
  EXPECT_TRUE(Contains(made[0], "Service demo, ")) << made[0];
  EXPECT_TRUE(Contains(made[1], "made 2 Pods, demo-attention-")) << made[1];
  EXPECT_TRUE(made[2].starts_with("made 3 Pods, demo-experts-") && made[2].ends_with("-3"))
      << made[2];
  EXPECT_TRUE(made[3].starts_with("made PodDisruptionBudget demo-")) << made[3];
}

TEST(Reconciler, AtRestItWritesNothing) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(65));
  FaultyApi counted(sim.operator_client, {}, sim.timeline);
  sim.RestartOperator(&counted);
  sim.Run(Seconds(630));
  // A new process raises the fence once and tells members of their epoch again.
  EXPECT_EQ(counted.calls().size(), 1u) << testing::PrintToString(counted.calls());
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, CountsFollowTheSpecEachForItself) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const std::set<std::string> first = NamesOf(sim.Pods(Role::kExperts));
  sim.Apply(1, 4);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 4);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2) << "both came in with one epoch";
  sim.Apply(3, 4);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(3, 4);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(NamesOf(sim.Pods(Role::kExperts)), first) << "the youngest went";
  EXPECT_EQ(sim.cluster.pods_ever().size(), 7u);
  EXPECT_GE(sim.op().CountEvents("ScaledUp"), 2);
  EXPECT_GE(sim.op().CountEvents("ScaledDown"), 2);
}

TEST(Reconciler, NoPodThatServesIsDeletedBeforeATopologyWithoutItIsTold) {
  SimulatedService sim;
  sim.Apply(1, 4);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.on_step = [&] {
    const auto topology = sim.Topology();
    std::set<std::string> there;
    for (const Node& pod : sim.List(kPods)) {
      if (FindAt(pod, {"metadata", "deletionTimestamp"}) == nullptr) there.emplace(UidOf(pod));
    }
    for (const std::string& uid : PodsOf(*topology->spec.committed)) {
      EXPECT_TRUE(there.contains(uid)) << "epoch " << topology->spec.committed->epoch;
    }
  };
  sim.Apply(1, 2);
  sim.Run(Seconds(20));
  sim.ExpectWhole(1, 2);
}

// An instance keeps the expert weights that it has; new instances load what is missing.
TEST(Reconciler, WhoStaysKeepsItsExperts) {
  SimulatedService sim;
  // One of them alone does not hold the model: no epoch without the other comes in between.
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const auto experts = [&] {
    std::map<InstanceId, controllers::HeldExperts> all = ExpertsOf(*sim.Topology()->spec.committed);
    for (auto& [instance, layers] : all) {
      for (std::vector<uint16_t>& own : layers) std::sort(own.begin(), own.end());
    }
    return all;
  };
  const std::map<InstanceId, controllers::HeldExperts> before = experts();
  ASSERT_EQ(before.size(), 2u);
  const PodSeen gone = sim.Pods(Role::kExperts)[0];
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", gone.name}, {}, kLimits).ok());
  sim.Run(Seconds(30));
  sim.ExpectWhole(1, 2);
  int kept = 0;
  for (const auto& [instance, held] : experts()) {
    const auto was = before.find(instance);
    if (was == before.end()) {
      EXPECT_EQ(held, before.at(InstanceOf(gone))) << "it takes the place of who has gone";
      continue;
    }
    EXPECT_EQ(held, was->second);
    ++kept;
  }
  EXPECT_EQ(kept, 1);
}

TEST(Reconciler, APodThatIsDeletedIsReplaced) {
  SimulatedService sim;
  sim.Apply(2, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const PodSeen gone = sim.Pods(Role::kExperts)[0];
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", gone.name}, {}, kLimits).ok());
  sim.Run(Seconds(1));
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/WaitingForPods");
  EXPECT_EQ(sim.Condition("AttentionReady"), "True/AsWanted");
  EXPECT_TRUE(sim.Condition("Ready").starts_with("False/"));
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(2, 2);
  EXPECT_FALSE(NamesOf(sim.Pods(Role::kExperts)).contains(gone.name)) << "names are given once";
}

TEST(Reconciler, ARestartedContainerIsAnotherMember) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const PodSeen pod = sim.Pods(Role::kExperts)[1];
  sim.cluster.Crash(pod.name);
  sim.Run(Seconds(10));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "the pod stays";
}

TEST(Reconciler, AContainerThatIsBackInSecondsComesIntoOneEpoch) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.cluster.restart_time = Seconds(3);
  const PodSeen pod = sim.Pods(Role::kExperts)[1];
  sim.cluster.Crash(pod.name);
  sim.workers.LoseEpochOf(InstanceOf(pod), "experts 1 is gone: it closed its connection");
  sim.Run(Seconds(4));
  EXPECT_EQ(sim.Condition("TopologyReady").substr(0, 6), "False/");
  EXPECT_NE(sim.MessageOf("TopologyReady").find(pod.name + " is being started again"),
            std::string::npos)
      << sim.MessageOf("TopologyReady");
  sim.Run(Seconds(12));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.workers.prepares(), 2) << "none without it";
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
}

TEST(Reconciler, AServiceIsAvailableThroughoutAChangeOfEpochs) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.Apply(2, 3);
  for (int i = 0; i < 3000; ++i) {
    sim.Run(Seconds(0.01));
    ASSERT_EQ(sim.Condition("Available"), "True/Serving") << i;
    ASSERT_EQ(sim.Condition("TopologyReady"), "True/Committed") << i;
  }
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
  // Members that cannot be told may serve the old epoch, the new one or none.
  sim.workers.commit_fails = Unavailable("attention-1: no answer");
  sim.Apply(2, 2);
  sim.RunUntil("Progressing");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Available"), "False/TopologyNotReady");
}

TEST(Reconciler, AContainerThatIsLongInComingBackIsNotWaitedFor) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.cluster.restart_time = Seconds(60);
  const PodSeen pod = sim.Pods(Role::kExperts)[1];
  sim.cluster.Crash(pod.name);
  sim.workers.LoseEpochOf(InstanceOf(pod), "experts 1 is gone: it closed its connection");
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Condition("Available"), "True/Serving") << "the others go on";
  EXPECT_EQ(EpochRecordOf(*sim.Topology()).committed->content.members.size(), 2u);
  sim.Run(Seconds(120));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 3);
}

TEST(Reconciler, AnEpochThatIsLostWhileAllItsPodsLiveIsFollowedByAnother) {
  SimulatedService sim;
  sim.Apply(2, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const EpochRecord before = EpochRecordOf(*sim.Topology());
  const PodSeen pod = sim.Pods(Role::kAttention)[0];
  sim.workers.prepare_time = Seconds(4);
  sim.workers.LoseEpochOf(InstanceOf(pod), "experts 1: connection reset by peer");
  sim.Run(Seconds(7));
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/Preparing");
  EXPECT_EQ(sim.Condition("Available"), "False/TopologyNotReady");
  const std::string said = sim.MessageOf("Ready");
  EXPECT_NE(said.find("epoch 1 is lost: attention-1 (pod " + pod.name + ", " + pod.ip +
                      ":9000) holds its requests: experts 1: connection reset by peer; and 4 more"),
            std::string::npos)
      << said;
  EXPECT_EQ(sim.op().CountEvents("TopologyLost"), 1);
  sim.Run(Seconds(8));
  sim.ExpectWhole(2, 3);
  const EpochRecord after = EpochRecordOf(*sim.Topology());
  EXPECT_EQ(after.committed->content, before.committed->content);
  EXPECT_EQ(after.committed->epoch, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 5u) << "nobody is replaced";
}

TEST(Reconciler, AnEpochThatIsLostAgainAndAgainIsFollowedMoreAndMoreRarely) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const InstanceId attention = InstanceOf(sim.Pods(Role::kAttention)[0]);
  sim.on_step = [&] { sim.workers.LoseEpochOf(attention, "experts 0: broken pipe"); };
  sim.Run(Seconds(300));
  EXPECT_GT(sim.workers.prepares(), 5);
  EXPECT_LT(sim.workers.prepares(), 13) << "each loss is noticed within some seconds";
  const int before = sim.workers.prepares();
  sim.Run(Seconds(300));
  EXPECT_LE(sim.workers.prepares() - before, 5);
  EXPECT_NE(sim.MessageOf("TopologyReady").find("after a pause of 60 s, since "), std::string::npos)
      << sim.MessageOf("TopologyReady");
  sim.on_step = [] {};
  sim.RunUntil("Ready");
}

// Members of a large service fail often, each for a reason of its own.
TEST(Reconciler, EpochsThatHaveServedAreFollowedAtOnceHoweverOftenTheyAreLost) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const InstanceId attention = InstanceOf(sim.Pods(Role::kAttention)[0]);
  for (int loss = 1; loss <= 8; ++loss) {
    sim.Run(Seconds(20));
    sim.workers.LoseEpochOf(attention, "experts 0: broken pipe");
    sim.Run(Seconds(7));
    sim.ExpectWhole(1, 2);
    EXPECT_EQ(sim.Topology()->spec.committed->epoch, loss + 1);
  }
}

TEST(Reconciler, PausedItMakesALostEpochAnew) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"paused":true}})");
  sim.Run(Seconds(5));
  sim.workers.LoseEpochOf(InstanceOf(sim.Pods(Role::kAttention)[0]), "experts 0: broken pipe");
  sim.Run(Seconds(15));
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
}

TEST(Reconciler, AMemberThatHangsIsNotWaitedForWhenItsEpochIsLost) {
  SimulatedService sim;
  sim.Apply(1, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const PodSeen hung = sim.Pods(Role::kExperts)[1];
  sim.workers.Of(InstanceOf(hung)).is_hung = true;
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1) << "its rows may go on";
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  sim.workers.LoseEpochOf(InstanceOf(sim.Pods(Role::kAttention)[0]), "experts 1: no answer");
  sim.Run(Seconds(15));
  EXPECT_EQ(EpochRecordOf(*sim.Topology()).committed->content.members.size(), 3u);
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.workers.prepares(), 3) << "without it at once, and another one that waits for it";
  sim.workers.Of(InstanceOf(hung)).is_hung = false;
  sim.Run(Seconds(120));
  sim.ExpectWhole(1, 3);
}

TEST(Reconciler, TheOnlyMemberOfARoleThatHangsEndsReadyAndAvailable) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const auto counts = [&] {
    const Node service = sim.Service();
    for (const Node& role : FindAt(service, {"status", "roles"})->items) {
      if (TextAt(role, {"name"}) == "attention") return std::string(TextAt(role, {"ready"}));
    }
    return std::string();
  };
  sim.Run(Seconds(6));
  const PodSeen hung = sim.Pods(Role::kAttention)[0];
  ScriptedWorkers::Worker& worker = sim.workers.Of(InstanceOf(hung));
  // One probe that fails is no proof, nor is one question without an answer.
  sim.cluster.SetReadiness(hung.name, false);
  sim.Run(Seconds(6));
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  sim.cluster.SetReadiness(hung.name, true);
  worker.is_hung = true;
  sim.Run(Seconds(8));
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(counts(), "1/1");
  sim.cluster.SetReadiness(hung.name, false);
  sim.Run(Seconds(1));
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/EpochLost");
  EXPECT_EQ(sim.Condition("Ready"), "False/TopologyNotReady");
  EXPECT_EQ(sim.Condition("Available"), "False/TopologyNotReady");
  EXPECT_EQ(counts(), "0/1");
  EXPECT_NE(sim.MessageOf("Ready").find("pod " + hung.name + " hangs since "), std::string::npos)
      << sim.MessageOf("Ready");
  worker.is_hung = false;
  sim.cluster.SetReadiness(hung.name, true);
  sim.Run(Seconds(7));
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, WhoHangsWhileItsEpochIsLostIsGivenAMoment) {
  SimulatedService sim;
  sim.Apply(1, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const PodSeen hung = sim.Pods(Role::kExperts)[1];
  sim.workers.Of(InstanceOf(hung)).is_hung = true;
  sim.workers.LoseEpochOf(InstanceOf(sim.Pods(Role::kAttention)[0]), "experts 1: no answer");
  for (int i = 0; i < 100 && sim.Condition("TopologyReady") != "False/EpochLost"; ++i) {
    sim.Run(Seconds(0.1));
  }
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/EpochLost");
  EXPECT_NE(sim.MessageOf("TopologyReady").find("; pod " + hung.name + " does not answer"),
            std::string::npos)
      << sim.MessageOf("TopologyReady");
  EXPECT_EQ(sim.workers.prepares(), 1);
  sim.workers.Of(InstanceOf(hung)).is_hung = false;
  sim.Run(Seconds(10));
  sim.ExpectWhole(1, 3);
  EXPECT_EQ(sim.workers.prepares(), 2) << "none without it";
}

TEST(Reconciler, AMemberThatCannotBeToldKeepsNoServiceFromItsNextEpoch) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  // It has prepared, and hangs before it gets Commit.
  sim.Apply(1, 3);
  sim.on_step = [&] {
    const auto topology = sim.Topology();
    if (!topology || !topology->spec.proposed) return;
    for (const PodSeen& pod : sim.Pods(Role::kExperts)) {
      ScriptedWorkers::Worker& worker = sim.workers.Of(InstanceOf(pod));
      if (pod.id == 3 && worker.prepared == 2) worker.is_hung = true;
    }
  };
  sim.Run(Seconds(10));
  sim.on_step = [] {};
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/WorkerUnreachable");
  EXPECT_NE(sim.MessageOf("TopologyReady").find("experts-3 (pod "), std::string::npos)
      << sim.MessageOf("TopologyReady");
  // A new topology is possible although not all know of this one.
  sim.Apply(1, 2);
  sim.Run(Seconds(20));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 3);
}

TEST(Reconciler, WhoLeftWithAnEpochThatWasNeverToldHearsOfItWithTheNext) {
  SimulatedService sim;
  sim.Apply(1, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const std::vector<PodSeen> pods = sim.Pods(Role::kExperts);
  sim.workers.commit_fails = Unavailable("attention-1: no answer");
  sim.Apply(1, 2);
  sim.Run(Seconds(3));
  EXPECT_EQ(sim.workers.leavers(), (std::set<std::string>{pods[2].name}));
  sim.Apply(1, 1);
  sim.Run(Seconds(5));
  sim.workers.commit_fails = OkStatus();
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.workers.leavers(), (std::set<std::string>{pods[1].name, pods[2].name}));
  sim.ExpectWhole(1, 1);
}

TEST(Reconciler, AnEpochThatNotAllCanBeToldOfIsMadeAnew) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.workers.commit_fails = FailedPrecondition("experts-2: epoch 2 is not prepared here");
  sim.Apply(1, 3);
  sim.Run(Seconds(12));
  EXPECT_EQ(sim.op().CountEvents("TopologyLost"), 1);
  sim.workers.commit_fails = OkStatus();
  sim.Run(Seconds(60));
  sim.ExpectWhole(1, 3);
  EXPECT_GE(sim.Topology()->spec.committed->epoch, 3);
}

TEST(Reconciler, WhenWhoCouldNotBeToldIsGoneTheOthersHearAtOnce) {
  SimulatedService sim;
  sim.workers.commit_fails = Unavailable("experts-2: no answer");
  sim.Apply(1, 3);
  sim.Run(Seconds(9));
  const int commits = sim.workers.commits();
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/WorkerUnreachable");
  sim.workers.commit_fails = OkStatus();
  ASSERT_TRUE(
      sim.user.Delete(kPods, {"default", sim.Pods(Role::kExperts)[1].name}, {}, kLimits).ok());
  sim.Run(Seconds(1));
  EXPECT_GT(sim.workers.commits(), commits);
  sim.Run(Seconds(30));
  sim.ExpectWhole(1, 3);
}

TEST(Reconciler, AtRestItsMembersAreAskedEveryFewSecondsAndNobodyElse) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(65));
  FaultyApi counted(sim.operator_client, {}, sim.timeline);
  sim.RestartOperator(&counted);
  sim.Run(Seconds(10));
  const size_t calls = counted.calls().size();
  const int questions = sim.workers.questions();
  const int64_t passes = sim.op().passes();
  sim.Run(Seconds(500));
  EXPECT_EQ(counted.calls().size(), calls);
  EXPECT_GE(sim.workers.questions() - questions, 90);
  EXPECT_LE(sim.workers.questions() - questions, 101);
  EXPECT_LE(sim.op().passes() - passes, 102) << "an answer that all is well wakes nobody";
}

TEST(Reconciler, ACrashLoopIsNamedAndReplacedOnceInTenMinutes) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const PodSeen pod = sim.Pods(Role::kExperts)[1];
  sim.cluster.CrashLoop(pod.name, "cannot map /model: no such file");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/CrashLooping");
  EXPECT_NE(sim.MessageOf("ExpertsReady").find("no such file"), std::string::npos);
  EXPECT_EQ(sim.op().CountEvents("CrashLooping"), 1);
  sim.Run(Seconds(500));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "it may come back by itself";
  sim.Run(Seconds(200));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 4u);
  sim.ExpectWhole(1, 2);
  EXPECT_FALSE(NamesOf(sim.Pods(Role::kExperts)).contains(pod.name));
}

TEST(Reconciler, WhatALostNodeHeldIsReplacedAfterAMinute) {
  SimulatedService sim;
  sim.Apply(2, 2);
  sim.RunUntil("Ready");
  sim.cluster.LoseNode("node-a");
  sim.Run(Seconds(50));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 4u) << "it may come back";
  sim.Run(Seconds(40));
  EXPECT_EQ(sim.Condition("Ready"), "True/AsWanted");
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    int live = 0;
    for (const PodSeen& pod : sim.Pods(role)) live += pod.node == "node-b";
    EXPECT_EQ(live, 2);
  }
}

TEST(Reconciler, PodsOfACordonedNodeServeUntilOthersDo) {
  SimulatedService sim;
  sim.Apply(2, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.on_step = [&] {
    const EpochRecord record = EpochRecordOf(*sim.Topology());
    EXPECT_EQ(record.committed->content.members.size(), 4u) << "never fewer serve";
  };
  sim.cluster.Cordon("node-a");
  sim.Run(Seconds(30));
  sim.ExpectWhole(2, 2);
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) EXPECT_EQ(pod.node, "node-b");
  }
}

TEST(Reconciler, WithoutRoomForReplacementsPodsOfACordonedNodeServeOn) {
  SimulatedService sim;
  sim.Apply(2, 3);
  sim.RunUntil("Ready");
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  sim.cluster.Cordon("node-a");
  sim.Run(Seconds(600));
  EXPECT_EQ(Members(sim, Role::kExperts), 3);
}

TEST(Reconciler, AShrinkingRoleLeavesACordonedNodeWithoutReplacements) {
  SimulatedService sim;
  sim.Apply(2, 3, "  drain: {withoutCapacity: Shrink}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  std::set<std::string> leaving;
  for (const PodSeen& pod : sim.Pods(Role::kExperts)) {
    if (pod.node == "node-a") leaving.insert(pod.name);
  }
  ASSERT_FALSE(leaving.empty());
  ASSERT_LT(leaving.size(), 3u);
  sim.cluster.Cordon("node-a");
  sim.Run(Seconds(40));
  EXPECT_EQ(Members(sim, Role::kExperts), 3) << "a node may still come";
  sim.on_step = [&] {
    // No pod goes before a topology without it serves.
    std::set<std::string> there;
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      for (const PodSeen& pod : sim.Pods(role)) there.insert(pod.uid);
    }
    for (const InstanceId& member : MembersOf(sim)) {
      EXPECT_TRUE(there.contains(member.pod_uid)) << member.pod_uid;
    }
  };
  sim.Run(Seconds(60));
  for (const PodSeen& pod : sim.Pods(Role::kExperts)) EXPECT_NE(pod.node, "node-a");
  EXPECT_EQ(Members(sim, Role::kExperts), 3 - static_cast<int>(leaving.size()));
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/InsufficientCapacity");

  sim.cluster.MakeRoom("experts");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(2, 3);
}

TEST(Reconciler, AShrinkingRoleKeepsWhatTheModelNeeds) {
  SimulatedService sim;
  // Of eight experts each instance has room for four, so neither can go.
  sim.Apply(1, 2, "  drain: {withoutCapacity: Shrink}\n");
  sim.Patch(R"({"spec": {"roles": {"experts": {"slotsPerInstance": 4, "spareSlots": 0}}}})");
  sim.RunUntil("Ready");
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  sim.cluster.Cordon("node-a");
  sim.Run(Seconds(600));
  EXPECT_EQ(Members(sim, Role::kExperts), 2);
}

TEST(Reconciler, StandbyPodsAreReadyAndDoNotServe) {
  SimulatedService sim;
  sim.Apply(1, 2, "  scaling: {standby: 1}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(10));
  EXPECT_EQ(Members(sim, Role::kExperts), 2);
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 2u);
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 3u);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 5u);
  EXPECT_TRUE(Contains(sim.MessageOf("ExpertsReady"), "1 of 1 standby pods is ready"))
      << sim.MessageOf("ExpertsReady");

  // A growth takes the pod that is there, and another one is made.
  const std::set<std::string> before = NamesOf(sim.Pods(Role::kExperts));
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  sim.Patch(R"({"spec": {"roles": {"experts": {"replicas": 3}}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(Members(sim, Role::kExperts), 3);
  for (const std::string& name : before) {
    EXPECT_TRUE(NamesOf(sim.Pods(Role::kExperts)).contains(name));
  }
  EXPECT_EQ(sim.Condition("ExpertsReady"), "True/AsWanted");
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  sim.cluster.MakeRoom("experts");
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 4u);

  // So does a loss.
  const PodSeen lost = sim.Pods(Role::kExperts)[0];
  sim.cluster.CrashLoop(lost.name, "no such file");
  sim.Run(Seconds(20));
  for (const InstanceId& member : MembersOf(sim)) {
    EXPECT_NE(member.pod_uid, lost.uid);
  }
  EXPECT_EQ(Members(sim, Role::kExperts), 3);

  // Without them the rest goes.
  sim.Patch(R"({"spec": {"scaling": {"standby": 0}}})");
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 1u);
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 3u);
}

TEST(Reconciler, ARolloutReplacesStandbyPodsToo) {
  SimulatedService sim;
  sim.Apply(1, 2, "  scaling: {standby: 1}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(10));
  const std::set<std::string> before = NamesOf(sim.Pods(Role::kExperts));
  sim.Patch(R"({"spec": {"roles": {"experts": {"nodeSelector": {"disk": "fast"}}}}})");
  sim.Run(Seconds(120));
  EXPECT_EQ(Members(sim, Role::kExperts), 2);
  const std::set<std::string> after = NamesOf(sim.Pods(Role::kExperts));
  EXPECT_EQ(after.size(), 3u);
  for (const std::string& name : after) EXPECT_FALSE(before.contains(name)) << name;
}

TEST(Reconciler, WhatIsOfAnEpochNeedsNoNewPod) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const std::pair<const char*, std::function<bool()>> edits[] = {
      {R"({"spec":{"roles":{"experts":{"slotsPerInstance":7}}}})",
       [&] { return sim.workers.last_plan().slots_per_instance == 7; }},
      {R"({"spec":{"roles":{"experts":{"spareSlots":1}}}})",
       [&] { return sim.workers.last_plan().spare_slots == 1; }},
      {R"({"spec":{"roles":{"experts":{"scheduling":"AEBSGreedy"}}}})",
       [&] {
         return sim.workers.last_plan().effective.scheduling == SchedulingPolicy::kAebsGreedy;
       }},
      {R"({"spec":{"pipeline":{"microBatches":2}}})",
       [&] { return sim.workers.last().micro_batches == 2; }},
      {R"({"spec":{"exchange":{"transport":"TCP"}}})",
       [&] { return sim.workers.last().transport == ExchangeTransport::kTcp; }},
      {R"({"spec":{"exchange":{"transport":"RDMA"}}})",
       [&] { return sim.workers.last().transport == ExchangeTransport::kRdma; }},
      {R"({"spec":{"gateway":{"limits":{"queuedRequests":7}}}})",
       [&] { return sim.workers.last_plan().queued_requests == 7; }},
      {R"({"spec":{"slo":{"tpot":{"targetMilliseconds":40}}}})",
       [&] { return sim.workers.last_plan().tpot_target_milliseconds == 40; }},
  };
  int64_t epoch = 1;
  for (const auto& [patch, is_done] : edits) {
    SCOPED_TRACE(patch);
    sim.Patch(patch);
    sim.RunUntil("Ready");
    sim.Run(Seconds(6));
    EXPECT_TRUE(is_done());
    EXPECT_EQ(sim.Topology()->spec.committed->epoch, ++epoch);
  }
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  sim.ExpectWhole(1, 2);
}

// A serving pod keeps its sequence room until another has replaced it.
TEST(Reconciler, AnotherRoomForSequencesTakesOtherAttentionPodsOneByOne) {
  SimulatedService sim;
  sim.Apply(2, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  const auto room = [&] { return sim.workers.last().attention[0].sequences; };
  using Wants = std::function<bool(const SequenceRoom&)>;
  const std::pair<const char*, Wants> edits[] = {
      {R"({"spec":{"roles":{"attention":{"maxBatchSize":32}}}})",
       [](const SequenceRoom& r) { return r.max_batch_size == 32; }},
      {R"({"spec":{"model":{"maxModelLen":256}}})",
       [](const SequenceRoom& r) { return r.max_model_len == 256; }},
      {R"({"spec":{"roles":{"attention":{"kvCache":{"size":"1Gi"}}}}})",
       [](const SequenceRoom& r) { return r.kv_bytes == int64_t{1} << 30; }},
      {R"({"spec":{"roles":{"attention":{"maxBatchSize":1000}}}})",
       [](const SequenceRoom& r) { return r.max_batch_size == 1000; }},
  };
  size_t pods = 4;
  for (const auto& [patch, is_wanted] : edits) {
    SCOPED_TRACE(patch);
    const SequenceRoom before = room();
    ASSERT_FALSE(is_wanted(before));
    bool were_mixed = false;
    sim.on_step = [&] {
      EXPECT_EQ(EpochRecordOf(*sim.Topology()).committed->content.members.size(), 4u);
      const std::vector<Instance>& attention = sim.workers.last().attention;
      for (const Instance& one : attention) {
        EXPECT_TRUE(one.sequences == before || is_wanted(one.sequences));
        EXPECT_LE(one.sequences.max_batch_size, sim.workers.last().max_rows_per_round);
      }
      were_mixed = were_mixed || attention[0].sequences != attention[1].sequences;
    };
    sim.Patch(patch);
    sim.Run(Seconds(40));
    EXPECT_TRUE(were_mixed);
    sim.ExpectWhole(2, 2);
    for (const Instance& one : sim.workers.last().attention) EXPECT_TRUE(is_wanted(one.sequences));
    EXPECT_EQ(sim.cluster.pods_ever().size(), pods += 2) << "the experts' stay";
  }
}

TEST(Reconciler, WhatIsOfPodsRollsThemOneByOne) {
  SimulatedService sim;
  sim.Apply(1, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.on_step = [&] {
    EXPECT_LE(sim.Pods(Role::kExperts).size(), 4u) << "one more than wanted";
    EXPECT_EQ(EpochRecordOf(*sim.Topology()).committed->content.members.size(), 4u);
  };
  sim.Patch(R"({"spec":{"roles":{"experts":{"nodeSelector":{"disk":"fast"}}}}})");
  sim.Run(Seconds(40));
  sim.ExpectWhole(1, 3);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 7u) << "the other role's stay";
  for (const Node& pod : sim.List(kPods)) {
    if (TextAt(pod, {"metadata", "labels", kRoleLabel}) != "experts") continue;
    EXPECT_EQ(TextAt(pod, {"spec", "nodeSelector", "disk"}), "fast");
  }
}

// For example after a typing error in the image.
TEST(Reconciler, AnImageThatIsNamedNoMoreGivesWayToTheOperatorsOwn) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"image":"worker:x"}})");
  sim.RunUntil("Ready");
  EXPECT_EQ(TextAt(sim.Service(), {"status", "workerImage"}), "worker:x");
  sim.Patch(R"({"spec":{"image":null}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(TextAt(sim.Service(), {"status", "workerImage"}), "worker:1");
  EXPECT_EQ(sim.cluster.pods_ever().size(), 9u);
}

TEST(Reconciler, ARestartRollsAllWithTheOperatorsImageOfThen) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.options.worker_image = "worker:2";
  sim.RestartOperator();
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "an upgrade of the operator rolls nothing";
  EXPECT_EQ(TextAt(sim.Service(), {"status", "workerImage"}), "worker:1");
  sim.Patch(R"({"metadata":{"annotations":{"serving.janus.dev/restartedAt":"now"}}})");
  sim.Run(Seconds(60));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 6u);
  EXPECT_EQ(TextAt(sim.Service(), {"status", "workerImage"}), "worker:2");
  EXPECT_EQ(TextAt(*sim.Get(kDeployments, "demo-gateway"),
                   {"spec", "template", "metadata", "annotations", kRestartedAtAnnotation}),
            "now")
      << "the gateways too";
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 6u) << "once";
}

TEST(Reconciler, TheGatewayAndItsServiceFollowTheSpec) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"gateway":{"replicas":3,"service":{"port":8080}}}})");
  sim.Run(Seconds(5));
  EXPECT_EQ(IntegerAt(*sim.Get(kDeployments, "demo-gateway"), {"spec", "replicas"}), 3);
  const Node endpoint = *sim.Get(kServices, "demo");
  EXPECT_EQ(IntegerAt(FindAt(endpoint, {"spec", "ports"})->items[0], {"port"}), 8080);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1);
}

TEST(Reconciler, WhatOthersChangeOrDeleteOfOursIsMended) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  Node endpoint = *sim.Get(kServices, "demo");
  SetAt(endpoint, {"spec", "selector", kServiceLabel}, Text("other"));
  ASSERT_TRUE(sim.user.Update(kServices, endpoint, Subresource::kNone, {}, kLimits).ok());
  ASSERT_TRUE(sim.user.Delete(kDeployments, {"default", "demo-gateway"}, {}, kLimits).ok());
  ASSERT_TRUE(sim.user.Delete(kDisruptionBudgets, {"default", "demo-experts"}, {}, kLimits).ok());
  Node pod = *sim.Get(kPods, sim.Pods(Role::kExperts)[0].name);
  SetAt(pod, {"metadata", "labels", kMemberLabel}, Text("no"));
  ASSERT_TRUE(sim.user.Update(kPods, pod, Subresource::kNone, {}, kLimits).ok());
  sim.Run(Seconds(5));
  EXPECT_EQ(TextAt(*sim.Get(kServices, "demo"), {"spec", "selector", kServiceLabel}), "demo");
  EXPECT_TRUE(sim.Get(kDeployments, "demo-gateway"));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
}

// Like the API server: a list of ports has the ports of all managers, and a repeated name is
// refused.
class PortsHaveNames final : public PassingApi {
 public:
  using PassingApi::PassingApi;
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override {
    const ApiResult<Node> there = Get(resource, KeyOf(object), Subresource::kNone, limits);
    const Node* const has = there.ok() ? FindAt(*there, {"spec", "ports"}) : nullptr;
    const Node* const wants = FindAt(object, {"spec", "ports"});
    if (has != nullptr && wants != nullptr &&
        IntegerAt(has->items[0], {"port"}) != IntegerAt(wants->items[0], {"port"})) {
      ++refused;
      return ErrorOfReply(422,
                          R"({"kind": "Status", "apiVersion": "v1", "status": "Failure",)"
                          R"( "message": "spec.ports[1].name: Duplicate value: \"http\""})",
                          std::nullopt);
    }
    return PassingApi::Apply(resource, object, subresource, options, limits);
  }
  int refused = 0;
};

TEST(Reconciler, APortThatSomebodyChangedIsMendedThoughAnApplyWouldKeepTheirsToo) {
  SimulatedService sim;
  PortsHaveNames api(sim.operator_client);
  sim.RestartOperator(&api);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const auto port = [&] {
    return IntegerAt(FindAt(*sim.Get(kServices, "demo"), {"spec", "ports"})->items[0], {"port"});
  };
  Node endpoint = *sim.Get(kServices, "demo");
  Node ports = *FindAt(endpoint, {"spec", "ports"});
  SetAt(ports.items[0], {"port"}, Node::Integer(8081));
  SetAt(endpoint, {"spec", "ports"}, ports);
  ASSERT_TRUE(sim.user.Update(kServices, endpoint, Subresource::kNone, {}, kLimits).ok());
  sim.Run(Seconds(5));
  EXPECT_EQ(api.refused, 1);
  EXPECT_EQ(port(), 80);
  EXPECT_EQ(sim.Condition("Stalled"), "False/Reconciling");
  sim.Patch(R"({"spec":{"gateway":{"service":{"port":8080}}}})");
  sim.Run(Seconds(5));
  EXPECT_EQ(port(), 8080);
  EXPECT_EQ(sim.Condition("Ready"), "True/AsWanted");
}

TEST(Reconciler, AForeignObjectOfAWantedNameIsNeverTouched) {
  SimulatedService sim;
  const Node foreign =
      Object({{"apiVersion", Text("v1")},
              {"kind", Text("Service")},
              {"metadata", Object({{"name", Text("demo")}, {"namespace", Text("default")}})},
              {"spec", Object({{"ports", ListOf({Object({{"port", Node::Integer(1)}})})}})}});
  const Node before = *sim.user.Create(kServices, foreign, {}, kLimits);
  sim.Apply(1, 2);
  sim.Run(Seconds(30));
  EXPECT_EQ(ResourceVersionOf(*sim.Get(kServices, "demo")), ResourceVersionOf(before));
  EXPECT_GE(sim.op().CountEvents("AdoptRefused"), 1);
  EXPECT_EQ(sim.Condition("Progressing"), "False/AdoptRefused");
  for (const char* type : {"Ready", "Available"}) {
    EXPECT_EQ(sim.Condition(type), "False/AdoptRefused") << "who calls demo reaches somebody else";
    EXPECT_TRUE(Contains(sim.MessageOf(type), "Service demo has another owner"));
  }
  sim.Run(Seconds(600));
  EXPECT_LE(sim.op().CountEvents("AdoptRefused"), 12) << "in every pass";
  ASSERT_TRUE(sim.user.Delete(kServices, {"default", "demo"}, {}, kLimits).ok());
  sim.Run(Seconds(320));
  EXPECT_TRUE(sim.Get(kServices, "demo")) << "made once the name is free";
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, AForeignPodOfTheNextNameIsNeverTouchedAndAnotherNameIsTaken) {
  SimulatedService sim;
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  std::string next = sim.Pods(Role::kExperts).front().name;
  next.back() = '2';
  const Node foreign = Object(
      {{"apiVersion", Text("v1")},
       {"kind", Text("Pod")},
       {"metadata", Object({{"name", Text(next)}, {"namespace", Text("default")}})},
       {"spec", Object({{"containers", ListOf({Object({{"name", Text("a")},
                                                       {"image", Text("somebody:1")}})})}})}});
  const ApiResult<Node> before = sim.user.Create(kPods, foreign, {}, kLimits);
  ASSERT_TRUE(before.ok()) << before.error().message;
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":2}}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  EXPECT_GE(sim.op().CountEvents("AdoptRefused"), 1);
  const std::optional<Node> there = sim.Get(kPods, next);
  ASSERT_TRUE(there) << "it is somebody else's";
  EXPECT_EQ(UidOf(*there), UidOf(*before));
  EXPECT_EQ(FindAt(*there, {"metadata", "labels"}), nullptr);
  sim.ExpectWhole(1, 2);
  const std::vector<PodSeen> pods = sim.Pods(Role::kExperts);
  ASSERT_EQ(pods.size(), 2u);
  EXPECT_TRUE(std::ranges::all_of(pods, [&](const PodSeen& pod) { return pod.name != next; }));
}

// Children are created by POST, and server-side apply alone never removes fields set by POST.
TEST(Reconciler, WhatIsWantedNoMoreGoesFromWhatWasMade) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.Patch(R"({"spec":{"gateway":{"podTemplate":{"spec":{"nodeSelector":{"disk":"fast"}}}}}})");
  sim.RunUntil("Ready");
  const auto disk = [&] {
    const auto gateway = sim.Get(kDeployments, "demo-gateway");
    return std::string(TextAt(*gateway, {"spec", "template", "spec", "nodeSelector", "disk"}));
  };
  EXPECT_EQ(disk(), "fast");
  sim.Patch(R"({"spec":{"gateway":{"podTemplate":null}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(disk(), "");
  EXPECT_EQ(sim.op().CountEvents("Updated"), 1) << "handed over and applied, and told once";
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, NetworkPoliciesAreKeptWhileTheSpecAsksForThem) {
  SimulatedService sim;
  sim.options.defaults.operator_namespace = "control";
  sim.RestartOperator();
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  EXPECT_TRUE(sim.List(kNetworkPolicies).empty());
  sim.Patch(R"({"spec":{"security":{"networkPolicy":true}}})");
  sim.Run(Seconds(5));
  ASSERT_EQ(sim.List(kNetworkPolicies).size(), 2u);
  const Node made = *sim.Get(kNetworkPolicies, "demo-workers");
  EXPECT_EQ(TextAt(FindAt(made, {"spec", "ingress"})->items[0].Find("from")->items[2],
                   {"namespaceSelector", "matchLabels", "kubernetes.io/metadata.name"}),
            "control");

  Node opened = made;
  SetAt(opened, {"spec", "ingress"}, ListOf({Node::Map()}));
  ASSERT_TRUE(sim.user.Update(kNetworkPolicies, opened, Subresource::kNone, {}, kLimits).ok());
  ASSERT_TRUE(sim.user.Delete(kNetworkPolicies, {"default", "demo-gateway"}, {}, kLimits).ok());
  sim.Run(Seconds(5));
  EXPECT_EQ(*FindAt(*sim.Get(kNetworkPolicies, "demo-workers"), {"spec"}), *made.Find("spec"));
  EXPECT_TRUE(sim.Get(kNetworkPolicies, "demo-gateway"));

  sim.Patch(R"({"spec":{"security":{"networkPolicy":false}}})");
  sim.Run(Seconds(5));
  EXPECT_TRUE(sim.List(kNetworkPolicies).empty());
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "nobody is replaced for it";
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1);
}

TEST(Reconciler, AForeignNetworkPolicyIsNeitherTakenNorTakenAway) {
  SimulatedService sim;
  const Node foreign =
      Object({{"apiVersion", Text("networking.k8s.io/v1")},
              {"kind", Text("NetworkPolicy")},
              {"metadata", Object({{"name", Text("demo-workers")},
                                   {"namespace", Text("default")},
                                   {"labels", Object({{kServiceLabel, Text("demo")}})}})},
              {"spec",
               Object({{"podSelector", Node::Map()}, {"policyTypes", ListOf({Text("Egress")})}})}});
  const Node before = *sim.user.Create(kNetworkPolicies, foreign, {}, kLimits);
  const auto expect_untouched = [&] {
    const std::optional<Node> there = sim.Get(kNetworkPolicies, "demo-workers");
    ASSERT_TRUE(there);
    EXPECT_EQ(ResourceVersionOf(*there), ResourceVersionOf(before));
  };
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  expect_untouched();
  sim.Patch(R"({"spec":{"security":{"networkPolicy":true}}})");
  sim.Run(Seconds(10));
  expect_untouched();
  EXPECT_EQ(sim.Condition("Progressing"), "False/AdoptRefused");
  EXPECT_TRUE(sim.Get(kNetworkPolicies, "demo-gateway")) << "the other one is made";
  sim.Patch(R"({"spec":{"security":{"networkPolicy":false}}})");
  sim.Run(Seconds(10));
  expect_untouched();
  EXPECT_FALSE(sim.Get(kNetworkPolicies, "demo-gateway"));
}

TEST(Reconciler, PausedItHealsAndDoesNothingElse) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"paused":true}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.MessageOf("Ready"),
            "the service is as wanted; new edits wait while spec.paused is true");
  sim.Patch(R"({"spec":{"gateway":{"replicas":3}}})");
  sim.Run(Seconds(20));
  EXPECT_FALSE(Contains(sim.MessageOf("Progressing"), "except for edits")) << "gateways follow";
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":4,"spareSlots":1,)"
            R"("nodeSelector":{"disk":"fast"}}}}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1);
  EXPECT_EQ(sim.Condition("ScalingReady"), "False/Paused");
  EXPECT_EQ(sim.MessageOf("ScalingReady"),
            "spec.roles.experts.replicas is 4; spec.paused keeps the count at 2");
  for (const char* type : {"Ready", "Progressing"}) {
    EXPECT_TRUE(Contains(sim.MessageOf(type), "edits that wait while spec.paused is true"));
  }
  ASSERT_TRUE(
      sim.user.Delete(kPods, {"default", sim.Pods(Role::kExperts)[0].name}, {}, kLimits).ok());
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 2u) << "healed";
  sim.Patch(R"({"spec":{"paused":false}})");
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/Static");
  EXPECT_EQ(sim.MessageOf("Ready"), "the service is as wanted");
  sim.ExpectWhole(1, 4);
}

TEST(Reconciler, SuspendedItHasNoWorkersAndComesBackAsItWas) {
  SimulatedService sim;
  sim.Apply(2, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(10));
  EXPECT_TRUE(sim.List(kPods).empty());
  EXPECT_TRUE(sim.Get(kDeployments, "demo-gateway") && sim.Get(kServices, "demo"));
  EXPECT_TRUE(sim.Topology()) << "it stays";
  EXPECT_EQ(sim.Condition("Available"), "False/Suspended");
  EXPECT_EQ(sim.Condition("Progressing"), "True/Complete");
  sim.options.worker_image = "worker:2";
  sim.RestartOperator();
  sim.Run(Seconds(5));
  EXPECT_TRUE(sim.List(kPods).empty());
  sim.Patch(R"({"spec":{"suspend":false}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(2, 2);
  EXPECT_EQ(TextAt(sim.Service(), {"status", "workerImage"}), "worker:2");
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
}

// A worker with SIGTERM waits for an epoch without it, which does not come.
TEST(Reconciler, WhoFallsAsleepIsLetGoOnceItsAnswersHaveEnded) {
  SimulatedService sim;
  sim.cluster.end_time = Seconds(60);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  std::vector<InstanceId> members;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : sim.Pods(role)) members.push_back(InstanceOf(pod));
  }
  ASSERT_EQ(members.size(), 3u);
  const auto serving = [&] {
    return std::ranges::count_if(
        members, [&](const InstanceId& one) { return sim.workers.Of(one).serving > 0; });
  };
  sim.workers.answers_last = Seconds(20);
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(10));
  EXPECT_TRUE(sim.workers.Of(members[0]).drains) << "it takes no new requests";
  EXPECT_EQ(serving(), 3) << "answers are under way";
  sim.Run(Seconds(15));
  EXPECT_EQ(serving(), 0);
  EXPECT_EQ(sim.List(kPods).size(), 3u) << "to be ended by themselves";
  // Whatever the spec says meanwhile, new pods start.
  sim.Patch(R"({"spec":{"suspend":false}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(60));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(serving(), 0);
}

TEST(Reconciler, AServiceThatIsDeletedLeavesNothing) {
  SimulatedService sim;
  sim.Apply(1, 2, "  security: {networkPolicy: true}\n");
  sim.RunUntil("Ready");
  sim.Delete();
  sim.Run(Seconds(10));
  for (const Resource* resource :
       {&kMoEServices, &kTopologies, &kPods, &kServices, &kServiceAccounts, &kDeployments,
        &kDisruptionBudgets, &kNetworkPolicies}) {
    EXPECT_TRUE(sim.List(*resource).empty()) << resource->ToString();
  }
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, WhatItCannotDoIsSaidAndNothingIsMade) {
  SimulatedService sim;
  sim.Apply(1, 2, "  exchange: {mode: TwoPhaseParallel}\n");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Stalled"), "True/NotSupported");
  for (const char* type : {"Ready", "AttentionReady", "ExpertsReady"}) {
    EXPECT_EQ(sim.Condition(type), "False/NotSupported");
  }
  EXPECT_NE(sim.MessageOf("Stalled").find("use Auto or Direct"), std::string::npos);
  EXPECT_TRUE(sim.List(kPods).empty() && sim.List(kServices).empty());
  EXPECT_EQ(sim.op().CountEvents("InvalidSpec"), 1);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  EXPECT_EQ(sim.Condition("Stalled"), "False/Reconciling");
  // An invalid edit leaves the running pods as they are.
  sim.Patch(R"({"spec":{"model":{"source":{"hostPath":{"path":"/etc"}}}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim.MessageOf("Stalled").find("hostPath.path"), std::string::npos);
  sim.Patch(R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/demo"}}},"device":"Timed",
                "timed":{"hardware":"H200","model":"deepseek-v3"}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim.MessageOf("Stalled").find("spec.device: is Timed, which this operator does not"),
            std::string::npos)
      << sim.MessageOf("Stalled");
  EXPECT_NE(sim.MessageOf("Stalled").find("timedDevices.enabled"), std::string::npos);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
}

// A spec that cannot be carried out does not prevent repairs, whichever process leads.
TEST(Reconciler, WhatServesIsKeptWholeWhileTheSpecIsOneThatCannotBe) {
  const std::pair<std::string, std::string> edits[] = {
      {R"({"spec":{"model":{"source":{"hostPath":{"path":"/etc"}}}}})", "True/InvalidSpec"},
      {R"({"spec":{"model":{"maxModelLen":1000000},"roles":{"experts":{"replicas":5}}}})",
       "True/InvalidSpec"},
      {R"({"spec":{"exchange":{"mode":"TwoPhaseParallel"}},
           "metadata":{"annotations":{"serving.janus.dev/restartedAt":"now"}}})",
       "True/NotSupported"},
      {R"({"spec":{"model":{"dtype":"Float16"},"rollout":{"type":"Rolling"}}})",
       "True/NotSupported"},
  };
  for (const auto& [edit, stalled] : edits) {
    SCOPED_TRACE(edit);
    SimulatedService sim;
    sim.Apply(2, 2);
    sim.RunUntil("Ready");
    sim.Run(Seconds(2));
    sim.Patch(edit);
    sim.Run(Seconds(20));
    EXPECT_EQ(sim.Condition("Stalled"), stalled) << sim.MessageOf("Stalled");
    EXPECT_EQ(sim.cluster.pods_ever().size(), 4u);
    int64_t epoch = 1;
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      ASSERT_TRUE(sim.user.Delete(kPods, {"default", sim.Pods(role)[0].name}, {}, kLimits).ok());
      sim.Run(Seconds(20));
      EXPECT_EQ(sim.Pods(Role::kAttention).size(), 2u);
      EXPECT_EQ(sim.Pods(Role::kExperts).size(), 2u);
      EXPECT_EQ(sim.Condition("Stalled"), stalled) << "and it is still said";
      EXPECT_EQ(sim.Condition("Available"), "True/Serving");
      const std::optional<MoETopology> topology = sim.Topology();
      EXPECT_EQ(topology->spec.committed->instances.size(), 4u);
      EXPECT_GT(topology->spec.committed->epoch, epoch);
      epoch = topology->spec.committed->epoch;
      sim.RestartOperator();
    }
    EXPECT_EQ(sim.cluster.pods_ever().size(), 6u) << "one for each";
    EXPECT_EQ(sim.op().CountEvents("InvalidSpec"), 0) << "it was said before";
    // It sleeps on request, and its former state does not wake it.
    sim.Patch(R"({"spec":{"suspend":true}})");
    sim.Run(Seconds(30));
    EXPECT_TRUE(sim.List(kPods).empty());
  }
}

// A worker refuses another sequence room than its first.
TEST(Reconciler, WhatWorkersWereToldStaysWhateverTheCounts) {
  SimulatedService sim;
  sim.planner.room.memory_bytes = int64_t{300} << 20;
  sim.Apply(1, 2);
  sim.Patch(R"({"spec":{"roles":{"attention":{"kvCache":{"memoryPercent":30}}}}})");
  sim.RunUntil("Ready");
  const auto room = [&] { return sim.workers.last().attention.back().sequences; };
  const SequenceRoom first = room();
  const auto wanted_alone = sim.planner.Plan(Fixed(2, 4, 30));
  ASSERT_TRUE(wanted_alone.ok()) << wanted_alone.status().ToString();
  ASSERT_LT(wanted_alone->plan.kv_bytes, first.kv_bytes) << "memory is short";
  const auto replicas = [&](int attention, int experts) {
    sim.Patch(R"({"spec":{"roles":{"attention":{"replicas":)" + std::to_string(attention) +
              R"(},"experts":{"replicas":)" + std::to_string(experts) + "}}}}");
  };
  for (const auto& [attention, experts] : {std::pair{2, 4}, {1, 2}}) {
    replicas(attention, experts);
    sim.RunUntil("Ready");
    sim.Run(Seconds(5));
    sim.ExpectWhole(attention, experts);
    EXPECT_EQ(sim.workers.last().m(), attention);
    EXPECT_EQ(room(), first);
    // It does not depend on free memory at the moment, or on the leading process.
    sim.planner.room.memory_bytes += int64_t{10} << 20;
    sim.RestartOperator();
  }
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 3) << "one for each";
  // A lack of resources is reported, and the running pods stay.
  EXPECT_TRUE(sim.planner.Plan(Fixed(4, 2, 30)).ok()) << "it could begin with less for each";
  replicas(4, 2);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_NE(sim.MessageOf("CapacityAvailable").find("chosen when it started"), std::string::npos)
      << sim.MessageOf("CapacityAvailable");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  // After sleeping, a service chooses a new size.
  replicas(2, 4);
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(10));
  sim.planner.room.memory_bytes = int64_t{300} << 20;
  sim.Patch(R"({"spec":{"suspend":false}})");
  sim.RunUntil("Ready");
  EXPECT_LT(room().kv_bytes, first.kv_bytes);
}

// A lack of resources is reported, and lost pods are replaced as they were.
TEST(Reconciler, WhatServesIsKeptWholeWhileThereIsNoRoomForMore) {
  const std::string edits[] = {
      R"({"spec":{"roles":{"attention":{"replicas":4}}}})",
      R"({"spec":{"roles":{"attention":{"kvCache":{"size":"1Gi"}}}}})",
      R"({"spec":{"roles":{"attention":{"maxBatchSize":64,"kvCache":{"size":"200Mi"}}}}})",
  };
  for (const std::string& edit : edits) {
    SCOPED_TRACE(edit);
    SimulatedService sim;
    sim.planner.room.memory_bytes = int64_t{300} << 20;
    sim.Apply(2, 2);
    sim.RunUntil("Ready");
    const SequenceRoom room = sim.workers.last().attention[0].sequences;
    sim.Patch(edit);
    sim.Run(Seconds(10));
    EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
    EXPECT_EQ(sim.Condition("Ready"), "False/InsufficientCapacity") << "not as this spec wants";
    EXPECT_EQ(sim.Condition("Progressing"), "False/InsufficientCapacity");
    EXPECT_EQ(sim.Condition("Available"), "True/Serving");
    const bool is_of_counts = edit.find("replicas") != std::string::npos;
    EXPECT_EQ(sim.Condition("ScalingReady"),
              is_of_counts ? "False/InsufficientCapacity" : "True/Static");
    sim.ExpectMembers(2, 2);
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      ASSERT_TRUE(sim.user.Delete(kPods, {"default", sim.Pods(role)[0].name}, {}, kLimits).ok());
      sim.Run(Seconds(20));
      sim.ExpectMembers(2, 2);
    }
    for (const Instance& one : sim.workers.last().attention) EXPECT_EQ(one.sequences, room);
    EXPECT_EQ(sim.cluster.pods_ever().size(), 6u);
    EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
    EXPECT_EQ(sim.Condition("Ready"), "False/InsufficientCapacity");
    sim.planner.room.memory_bytes = int64_t{8} << 30;
    sim.Patch(R"({"metadata":{"labels":{"a":"b"}}})");
    sim.RunUntil("Ready");
    EXPECT_EQ(sim.Condition("CapacityAvailable"), "True/Sufficient");
  }
}

TEST(Reconciler, APlanThatCannotBeHasItsCondition) {
  SimulatedService sim;
  sim.planner.fails = InvalidArgument("spec.model.maxModelLen: is 9; the model's is 8");
  sim.Apply(1, 2);
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  sim.planner.fails = ResourceExhausted("needs 93 GB, 24 GB free");
  sim.Patch(R"({"spec":{"drain":{"timeoutSeconds":200}}})");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_TRUE(sim.List(kPods).empty());
  sim.planner.fails = Unavailable("no worker has read the model yet");
  sim.Patch(R"({"spec":{"drain":{"timeoutSeconds":100}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.List(kPods).size(), 3u) << "pods start meanwhile";
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/ModelUnknown");
  sim.planner.fails = Unavailable("waiting for pod a to report its model and memory");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.MessageOf("TopologyReady"), sim.planner.fails.message()) << "words do not wait";
  sim.planner.fails = NotFound("pod a: /models/demoo: no such folder; /models has: demo");
  sim.Run(Seconds(2.5));
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/ModelNotFound");
  const std::string missing = sim.MessageOf("Ready");
  EXPECT_TRUE(
      missing.starts_with(sim.planner.fails.message() +
                          "; correct spec.model.source, or put the model there (missing since "))
      << missing;
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.MessageOf("Ready"), missing) << "its time is that of the first pass";
  sim.planner.fails = OkStatus();
  sim.Patch(R"({"metadata":{"labels":{"a":"b"}}})");
  sim.RunUntil("Ready");
}

TEST(Reconciler, InModeSloTheFewestPodsStartBeforeTheModelIsKnown) {
  SimulatedService sim;
  sim.planner.asks = true;
  const Result<Node> object = ParseYaml(
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
      "metadata: {name: demo, namespace: default}\nspec:\n"
      "  model: {source: {type: Image, image: {path: /models/demo}}}\n"
      "  slo: {tpot: {targetMilliseconds: 60}}\n"
      "  roles: {attention: {scaling: {mode: SLO, minReplicas: 2}}, experts: {slotsPerInstance: "
      "3}}\n",
      "demo.yaml");
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  ASSERT_TRUE(sim.user.Create(kMoEServices, *object, {}, {}).ok());
  sim.Run(Seconds(0.5));
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 2u);
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 1u);
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/ModelUnknown");
  EXPECT_EQ(sim.Condition("ScalingReady"), "Unknown/NotDecided");
  // Three instances hold its eight experts.
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(2, 3);
}

TEST(Reconciler, NoEpochIsMadeOfAPlanThatStillAwaitsAWorkersWord) {
  SimulatedService sim;
  sim.planner.awaited = "waiting for pod x to report its model and memory";
  sim.Apply(1, 2);
  sim.Run(Seconds(60));
  EXPECT_FALSE(sim.Topology());
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/ModelUnknown");
  EXPECT_EQ(sim.MessageOf("TopologyReady"), "waiting for pod x to report its model and memory");
  // Workers that it could ask: all ready ones, by role and age, at their pods' addresses.
  const WorkersToAsk& asked = sim.planner.workers;
  ASSERT_EQ(asked.workers.size(), 3u);
  EXPECT_EQ(asked.workers[0].role, Role::kAttention);
  EXPECT_EQ(asked.workers[0].revision, asked.attention_revision);
  const std::vector<PodSeen> experts = sim.Pods(Role::kExperts);
  EXPECT_EQ(asked.workers[1].name, "pod " + experts[0].name);
  EXPECT_EQ(asked.workers[1].address, WorkerAtPodIp(experts[0], 0).address);
  EXPECT_EQ(asked.workers[2].revision, asked.experts_revision);
  // It is asked again after a pause, and when it wakes the service.
  sim.planner.awaited.clear();
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, APlannerForgetsWhatHasGone) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  EXPECT_EQ(sim.planner.uid, UidOf(sim.Service()));
  EXPECT_TRUE(sim.planner.forgotten.empty());
  sim.Delete();
  sim.Run(Seconds(5));
  EXPECT_TRUE(sim.planner.forgotten.contains(sim.planner.uid));
}

TEST(Reconciler, APodThatNoNodeTakesIsNamedAndTheOthersServe) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.cluster.FillUp("experts", "0/2 nodes are available: 2 Insufficient memory.");
  sim.Apply(2, 3);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_NE(sim.MessageOf("CapacityAvailable").find("Insufficient memory"), std::string::npos);
  EXPECT_EQ(sim.Condition("AttentionReady"), "True/AsWanted") << "who found room serves";
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/InsufficientCapacity");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.op().CountEvents("InsufficientCapacity"), 1);
  sim.cluster.MakeRoom("experts");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(2, 3);
}

TEST(Reconciler, AnImageThatIsNotToBeHadIsSaid) {
  SimulatedService sim;
  const std::string words = "Back-off pulling image \"worker:1\"";
  sim.cluster.KeepFromStarting("attention", "ImagePullBackOff", words);
  sim.Apply(1, 2);
  sim.Run(Seconds(70));
  const std::string name = sim.Pods(Role::kAttention)[0].name;
  for (const char* type : {"Ready", "AttentionReady"}) {
    EXPECT_EQ(sim.Condition(type), "False/ContainerNotStarting");
    EXPECT_TRUE(sim.MessageOf(type).starts_with(
        "pod " + name + " does not start: container worker: ImagePullBackOff: " + words +
        "; correct spec.image"))
        << sim.MessageOf(type);
  }
  sim.cluster.KeepFromStarting("attention", "", "");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "nobody was replaced for it";

  // Pods that can start do not wait for pods that cannot.
  sim.cluster.KeepFromStarting("experts", "ErrImagePull", words);
  sim.Apply(2, 3);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Topology()->spec.committed->instances.size(), 4u);
  EXPECT_EQ(sim.Condition("AttentionReady"), "True/AsWanted");
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/ContainerNotStarting");
}

TEST(Reconciler, WhoIsAwaitedIsNamed) {
  SimulatedService sim;
  sim.cluster.start_time = Seconds(100);
  sim.Apply(1, 2);
  sim.Run(Seconds(70));
  const std::string name = sim.Pods(Role::kAttention)[0].name;
  EXPECT_EQ(sim.Condition("Ready"), "False/WaitingForPods");
  EXPECT_EQ(
      sim.MessageOf("AttentionReady"),
      "0 of 1 instances serve; pod " + name + " is not ready; wait while it loads, or see its log");
}

TEST(Reconciler, AGatewayThatCannotStartIsNamed) {
  SimulatedService sim;
  sim.cluster.gateways_run = false;
  sim.cluster.KeepFromStarting("", "ErrImageNeverPull", "gateway:1 is not present");
  const Result<Node> pod = ParseYaml(
      "apiVersion: v1\nkind: Pod\n"
      "metadata: {name: demo-gateway-1, namespace: default, labels: {serving.janus.dev/service: "
      "demo, app.kubernetes.io/component: gateway}}\n"
      "spec: {containers: [{name: gateway, image: 'gateway:1'}]}\n",
      "pod.yaml");
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  ASSERT_TRUE(sim.user.Create(kPods, *pod, {}, kLimits).ok());
  sim.Apply(1, 2);
  sim.Run(Seconds(70));
  for (const char* type : {"Ready", "Available"}) {
    EXPECT_EQ(sim.Condition(type), "False/GatewayNotReady");
    EXPECT_EQ(sim.MessageOf(type),
              "0 of 2 gateway pods are available; pod demo-gateway-1 does not start: container "
              "gateway: ErrImageNeverPull: gateway:1 is not present; correct spec.image or the "
              "image of the chart; a private registry needs spec.imagePullSecrets");
  }
  sim.cluster.gateways_run = true;
  sim.cluster.KeepFromStarting("", "", "");
  sim.RunUntil("Ready");
}

TEST(Reconciler, WhyNoGatewayPodCanBeMadeIsInTheWordsOfItsDeployment) {
  SimulatedService sim;
  sim.cluster.gateways_run = false;
  sim.Apply(1, 2);
  sim.Run(Seconds(5));
  Node deployment = *sim.Get(kDeployments, "demo-gateway");
  SetAt(deployment, {"status", "conditions"},
        ListOf({Object({{"type", Text("Available")}, {"status", Text("False")}}),
                Object({{"type", Text("ReplicaFailure")},
                        {"status", Text("True")},
                        {"message", Text("pods \"x\" is forbidden: violates PodSecurity")}})}));
  ASSERT_TRUE(sim.user.Update(kDeployments, deployment, Subresource::kStatus, {}, kLimits).ok());
  sim.Run(Seconds(70));
  EXPECT_EQ(
      sim.MessageOf("Available"),
      "0 of 2 gateway pods are available; no more pods can be created: pods \"x\" is forbidden: "
      "violates PodSecurity");
}

// No pod can be created while `is_down`.
class NoPods final : public PassingApi {
 public:
  NoPods(ObjectApi& api, int status, std::string words)
      : PassingApi(api), status_(status), words_(std::move(words)) {}
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override {
    if (&resource != &kPods || !is_down) {
      return PassingApi::Create(resource, object, options, limits);
    }
    ++asked;
    return ErrorOfReply(status_, R"({"kind": "Status", "message": ")" + words_ + "\"}", {});
  }
  bool is_down = true;
  int asked = 0;

 private:
  const int status_;
  const std::string words_;
};

// The namespace of the services is being deleted: nothing can be made in it.
class EndingNamespace final : public PassingApi {
 public:
  using PassingApi::PassingApi;
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override {
    if (!is_ending) return PassingApi::Create(resource, object, options, limits);
    return ErrorOfReply(403,
                        R"({"kind": "Status", "message": "it is being terminated", "details": )"
                        R"({"causes": [{"reason": "NamespaceTerminating"}]}})",
                        {});
  }
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override {
    if (&resource != &kNamespaces) {
      return PassingApi::Apply(resource, object, subresource, options, limits);
    }
    EXPECT_EQ(subresource, Subresource::kStatus);
    EXPECT_EQ(KeyOf(object).name, "default");
    ++told;
    return object;
  }
  bool is_ending = false;
  int told = 0;
};

TEST(Reconciler, ANamespaceThatIsBeingDeletedIsToldOnceThatItsLastPodHasGone) {
  SimulatedService sim;
  EndingNamespace api(sim.operator_client);
  sim.RestartOperator(&api);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  api.is_ending = true;
  const auto remove = [&](Role role) {
    for (const PodSeen& pod : sim.Pods(role)) {
      ASSERT_TRUE(sim.user.Delete(kPods, {"default", pod.name}, {}, kLimits).ok());
    }
    sim.Run(Seconds(60));
  };
  remove(Role::kExperts);
  EXPECT_EQ(api.told, 0) << "an attention pod is left";
  remove(Role::kAttention);
  EXPECT_EQ(api.told, 1);
  sim.Run(Seconds(700));
  EXPECT_EQ(api.told, 1);
}

TEST(Reconciler, WhatTheServerRefusesAgainAndAgainIsSaid) {
  SimulatedService sim;
  NoPods api(sim.operator_client, 500, "failed calling webhook");
  sim.RestartOperator(&api);
  sim.Apply(1, 2);
  sim.Run(Seconds(8));
  EXPECT_EQ(sim.MessageOf("Progressing"), "changes are being made");
  sim.Run(Seconds(70));
  EXPECT_EQ(sim.Condition("Progressing"), "True/Working");
  const std::string words = sim.MessageOf("Progressing");
  EXPECT_TRUE(Contains(words, "retrying: create ")) << words;
  EXPECT_TRUE(Contains(words, " demo-attention-")) << words;
  EXPECT_TRUE(words.ends_with(": failed calling webhook")) << words;
  sim.Run(Seconds(600));
  EXPECT_EQ(sim.Condition("Progressing"), "False/ProgressDeadlineExceeded");
  EXPECT_TRUE(Contains(sim.MessageOf("Progressing"), "failed calling webhook"));
  api.is_down = false;
  sim.RunUntil("Ready", Seconds(400));
  sim.Run(Seconds(65));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.MessageOf("Progressing"), "everything matches the spec");
}

TEST(Reconciler, WhatPeopleAreToMendIsSaidAtOnce) {
  SimulatedService sim;
  NoPods api(sim.operator_client, 422, "Pod is invalid: spec.containers[1].image: Required value");
  sim.RestartOperator(&api);
  sim.Apply(1, 2);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  for (const char* role : {"demo-attention-", "demo-experts-"}) {
    EXPECT_TRUE(Contains(sim.MessageOf("Stalled"), role)) << sim.MessageOf("Stalled");
  }
}

TEST(Reconciler, WhatNoPodWouldHaveOfAPodTemplateIsRefused) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"roles":{"experts":{"podTemplate":{"spec":{"containers":)"
            R"([{"name":"worker","image":"mine:1"}]}}}}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_TRUE(sim.MessageOf("Stalled").starts_with(
      "spec.roles.experts.podTemplate.spec.containers[0].image: is set by the operator"))
      << sim.MessageOf("Stalled");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
}

TEST(Reconciler, AForeignServiceOfTheMembersNameIsWhyGatewaysAreNotReady) {
  SimulatedService sim;
  sim.cluster.gateways_run = false;
  const Node foreign = Object(
      {{"apiVersion", Text("v1")},
       {"kind", Text("Service")},
       {"metadata", Object({{"name", Text("demo-members")}, {"namespace", Text("default")}})},
       {"spec", Object({{"ports", ListOf({Object({{"port", Node::Integer(1)}})})}})}});
  ASSERT_TRUE(sim.user.Create(kServices, foreign, {}, kLimits).ok());
  sim.Apply(1, 2);
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Condition("Available"), "False/GatewayNotReady");
  EXPECT_TRUE(Contains(sim.MessageOf("Available"), "Service demo-members has another owner"))
      << sim.MessageOf("Available");
}

TEST(Reconciler, WhatAQuotaRefusesIsAskedForAtTheSameNameAndNotAgainAtOnce) {
  SimulatedService sim;
  NoPods api(sim.operator_client, 403,
             "pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=4");
  sim.RestartOperator(&api);
  sim.Apply(1, 2);
  sim.Run(Seconds(240));
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/QuotaExceeded");
  EXPECT_EQ(sim.Condition("AttentionReady"), "False/QuotaExceeded");
  EXPECT_EQ(sim.Condition("Ready"), "False/QuotaExceeded") << "what people look at first";
  EXPECT_TRUE(Contains(sim.MessageOf("Ready"), "used: pods=4 since ")) << sim.MessageOf("Ready");
  EXPECT_TRUE(sim.MessageOf("Ready").ends_with("raise the quota, or lower resources or replicas"));
  EXPECT_LE(api.asked, 20) << "as many for each role";
  EXPECT_EQ(LastPodId(sim.Service(), Role::kAttention), 1);
  EXPECT_EQ(LastPodId(sim.Service(), Role::kExperts), 2);
  const int64_t passes = sim.op().passes();
  sim.Run(Seconds(200));
  EXPECT_LE(sim.op().passes() - passes, 20);
  api.is_down = false;
  sim.Run(Seconds(310));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(LastPodId(sim.Service(), Role::kExperts), 2) << "no name was given away";
}

// It has a pass every few seconds, because its members are asked for counts.
TEST(Reconciler, WhatAQuotaRefusesOfAServiceThatServesIsAskedForAgainWithPausesThatGrow) {
  SimulatedService sim;
  NoPods api(sim.operator_client, 403,
             "pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=5");
  api.is_down = false;
  sim.RestartOperator(&api);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  api.is_down = true;
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":4}}}})");
  sim.Run(Seconds(650));
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/QuotaExceeded");
  EXPECT_EQ(sim.Condition("AttentionReady"), "True/AsWanted");
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/QuotaExceeded");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_GE(api.asked, 3);
  EXPECT_LE(api.asked, 12);
  // A deleted pod frees resources for another.
  api.is_down = false;
  const std::string gone = sim.Pods(Role::kExperts)[0].name;
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", gone}, {}, kLimits).ok());
  sim.Run(Seconds(60));
  sim.ExpectWhole(1, 4);
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "True/Sufficient");
}

TEST(Reconciler, AServiceThatIsMadeAnewAtOnceDoesNotWaitForTheOldOnesPods) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.cluster.end_time = Seconds(250);  // they drain
  sim.Delete();
  sim.Apply(1, 2);
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.Condition("Ready"), "True/AsWanted") << sim.MessageOf("Ready");
}

TEST(Reconciler, PodsThatKubeletsRefuseAreMadeAnewOnceAMinute) {
  SimulatedService sim;
  sim.cluster.Refuse("experts", "UnexpectedAdmissionError");
  sim.Apply(1, 2);
  sim.Run(Seconds(50));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  sim.Run(Seconds(550));
  EXPECT_LE(sim.cluster.pods_ever().size(), 3u + 2 * 10);
  EXPECT_GE(sim.cluster.pods_ever().size(), 3u + 2 * 8);
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/WaitingForPods");
  EXPECT_TRUE(Contains(sim.MessageOf("ExpertsReady"), "it has failed: UnexpectedAdmissionError"))
      << sim.MessageOf("ExpertsReady");
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.Condition("Progressing"), "False/ProgressDeadlineExceeded")
      << "that one follows the other moves nothing";
  sim.cluster.Refuse("experts", "");
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, AFailedPrepareIsGivenUpSaidAndTriedAgain) {
  SimulatedService sim;
  sim.workers.prepare_fails = InvalidArgument("experts-1: tensor w1 is missing");
  sim.Apply(1, 2);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/PrepareFailed");
  EXPECT_NE(sim.MessageOf("TopologyReady").find("tensor w1 is missing"), std::string::npos);
  EXPECT_GE(sim.op().CountEvents("TopologyAborted"), 2);
  EXPECT_LE(sim.workers.prepares(), 6) << "with backoff";
  sim.workers.prepare_fails = OkStatus();
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, ACorrectedSpecReplacesPodsThatCouldNeverServe) {
  SimulatedService sim;
  sim.workers.prepare_fails = InvalidArgument("experts-1: there is no folder /models/demoo");
  sim.Apply(1, 2);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/PrepareFailed");
  std::set<std::string> wrong;
  for (const Role role : {Role::kAttention, Role::kExperts}) wrong.merge(NamesOf(sim.Pods(role)));
  sim.Patch(R"({"spec": {"model": {"source": {"hostPath": {"path": "/models/other"}}}}})");
  sim.Run(Seconds(3));
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const std::string& name : NamesOf(sim.Pods(role))) EXPECT_FALSE(wrong.contains(name));
  }
  sim.workers.prepare_fails = OkStatus();
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(1, 2);
}

TEST(Reconciler, WorkersThatSayNothingForAMinuteAreGivenUp) {
  SimulatedService sim;
  sim.workers.is_mute = true;
  sim.Apply(1, 2);
  sim.Run(Seconds(75));
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/WorkerUnreachable");
  sim.workers.is_mute = false;
  sim.RunUntil("Ready");
}

TEST(Reconciler, AMemberThatGoesWhileOthersPrepareEndsTheEpoch) {
  SimulatedService sim;
  sim.workers.prepare_time = Seconds(20);
  sim.Apply(1, 2);
  sim.Run(Seconds(10));
  ASSERT_TRUE(sim.Topology()->spec.proposed);
  const PodSeen gone = sim.Pods(Role::kExperts)[0];
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", gone.name}, {}, kLimits).ok());
  sim.Run(Seconds(60));
  EXPECT_EQ(
      sim.op().LastText("TopologyAborted"),
      "epoch 1 is given up: experts-1 (pod " + gone.name + ", " + gone.ip + ":9000) has gone");
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.workers.aborts(), 1);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
}

TEST(Reconciler, ANewLeaderTellsWhatIsCommittedAndAbortsWhatIsProposed) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.workers.prepare_time = Seconds(30);
  sim.Apply(1, 3);
  sim.Run(Seconds(10));
  ASSERT_TRUE(sim.Topology()->spec.proposed);
  sim.workers.prepare_time = Seconds(1);
  sim.RestartOperator();
  sim.Run(Seconds(20));
  sim.ExpectWhole(1, 3);
  EXPECT_EQ(sim.workers.aborts(), 1);
  EXPECT_EQ(sim.Topology()->spec.fence, 2);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 3);
  EXPECT_EQ(sim.workers.refused(), 0);
}

TEST(Reconciler, ALaggingCacheMakesNoPodTwice) {
  SimulatedService sim;
  sim.op().holds_pods_back = true;
  sim.Apply(2, 3);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 5u);
  sim.op().holds_pods_back = false;
  sim.RunUntil("Ready");
  sim.Run(Seconds(2));
  sim.ExpectWhole(2, 3);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 5u);
}

TEST(Reconciler, AnUnmovedServiceSaysSoAfterTenMinutes) {
  SimulatedService sim;
  sim.cluster.FillUp("experts", "no room");
  sim.Apply(1, 2);
  sim.Run(Seconds(590));
  EXPECT_EQ(sim.Condition("Progressing"), "True/Working");
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Condition("Progressing"), "False/ProgressDeadlineExceeded");
}

}  // namespace
}  // namespace janus::control
