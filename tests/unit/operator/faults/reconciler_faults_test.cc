// One service through its life, whatever call fails and wherever the operator is killed.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "operator/reconcile/names.h"
#include "operator/reconcile/topology_record.h"
#include "tests/support/kube/ending_api.h"
#include "tests/support/kube/fault_sweep.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

// Made, grown in both roles, robbed of a pod, shrunk. Users do the next thing after twenty seconds,
// whether the last one is done or not.
void Live(SimulatedService& sim) {
  sim.Apply(1, 2);
  sim.timeline.In(Seconds(20), [&] { sim.Apply(2, 3); });
  sim.timeline.In(Seconds(40), [&] {
    const std::vector<PodSeen> pods = sim.Pods(Role::kExperts);
    if (pods.empty()) return;
    EXPECT_TRUE(sim.user.Delete(kPods, {"default", pods[0].name}, {}, kLimits).ok());
  });
  sim.timeline.In(Seconds(60), [&] { sim.Apply(1, 2); });
  sim.Run(Seconds(80));
}

// Nothing is left of what was under way, and no pod is there that nobody wants.
void ExpectConverged(SimulatedService& sim) {
  sim.ExpectWhole(1, 2);
  for (const Resource* resource : {&kServices, &kDeployments, &kServiceAccounts, &kTopologies}) {
    EXPECT_EQ(sim.List(*resource).size(), resource == &kServices ? 2u : 1u) << resource->ToString();
  }
}

// 1A2E, then 2A3E, then one more for the one that was deleted.
constexpr size_t kPodsOfALife = 6;

TEST(ReconcilerFaults, UndisturbedNoPodIsMadeTooMuch) {
  SimulatedService sim;
  Live(sim);
  ExpectConverged(sim);
  EXPECT_EQ(sim.cluster.pods_ever().size(), kPodsOfALife);
}

bool IsSoak() {
  return std::getenv("JANUS_SOAK") != nullptr;
}

// False: there is no such call.
bool PlayKilled(size_t at, bool is_done) {
  const testing::ScopedTrace trace(
      __FILE__, __LINE__,
      "killed at call " + std::to_string(at) + (is_done ? ", done" : ", not done"));
  SimulatedService sim;
  EndingApi ending(sim.operator_client, at, is_done);
  sim.RestartOperator(&ending);
  bool was_killed = false;
  sim.on_step = [&] {
    if (!ending.has_ended() || was_killed) return;
    was_killed = true;
    sim.RestartOperator();
  };
  Live(sim);
  if (!was_killed) return false;
  ExpectConverged(sim);
  EXPECT_EQ(sim.cluster.pods_ever().size(), kPodsOfALife);
  EXPECT_EQ(sim.workers.refused(), 0);
  return !testing::Test::HasFailure();
}

// Of the calls every second one, so that each is one of either; with JANUS_SOAK all for both.
void KillAt(size_t first, bool is_done) {
  size_t at = IsSoak() ? 0 : first;
  while (PlayKilled(at, is_done)) at += IsSoak() ? 1 : 2;
  std::printf("killed %s calls up to %zu\n", is_done ? "after" : "before", at);
  EXPECT_GT(at, 60u);
}

TEST(ReconcilerFaults, KilledBeforeACallItsSuccessorEndsWhereItWouldHave) {
  KillAt(0, false);
}

TEST(ReconcilerFaults, KilledAfterACallItsSuccessorMakesNothingTwice) {
  KillAt(1, true);
}

CallCounts PlayFaults(std::vector<FaultPlan> plans) {
  SimulatedService sim;
  FaultyApi api(sim.operator_client, std::move(plans), sim.timeline);
  sim.RestartOperator(&api);
  Live(sim);
  // What only people can mend is tried again after five minutes, and a sweep refuses it up to four
  // times in a row.
  sim.Run(Seconds(1300));
  ExpectConverged(sim);
  const CallCounts counts = api.counts();
  sim.RestartOperator();  // what it calls ends here
  return counts;
}

TEST(ReconcilerFaults, WhateverEverySeventhCallComesToItConverges) {
  for (const Fault& fault : CallFaults()) {
    SCOPED_TRACE(fault.ToString());
    std::vector<FaultPlan> plans;
    for (size_t first = 3; first < 100; first += 7) plans.push_back({first, 1, fault});
    EXPECT_GT(PlayFaults(std::move(plans)).failed, 5u);
  }
}

TEST(ReconcilerFaults, WhateverCallFailsItConverges) {
  if (!IsSoak()) GTEST_SKIP() << "minutes: set JANUS_SOAK";
  SweepFaults("reconciler", CallFaults(),
              [](std::vector<FaultPlan> plans) { return PlayFaults(std::move(plans)); });
}

}  // namespace
}  // namespace janus::control
