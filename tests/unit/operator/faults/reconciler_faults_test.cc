// The life of one service, with any call failing or the operator killed at any point.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "tests/support/kube/ending_api.h"
#include "tests/support/kube/fault_sweep.h"
#include "tests/support/random.h"
#include "tests/support/reconcile/simulated_service.h"
#include "tests/support/sanitized.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

constexpr const char* kClosed = "  security: {networkPolicy: true}\n";

// Created, closed to others, both roles grown, a pod deleted, shrunk and opened. Users take the
// next step after twenty seconds, even if the last one is not finished.
void Live(SimulatedService& sim) {
  sim.Apply(1, 2);
  sim.timeline.In(Seconds(20), [&] { sim.Apply(2, 3, kClosed); });
  sim.timeline.In(Seconds(40), [&] {
    const std::vector<PodSeen> pods = sim.Pods(Role::kExperts);
    if (pods.empty()) return;
    EXPECT_TRUE(sim.user.Delete(kPods, {"default", pods[0].name}, {}, kLimits).ok());
  });
  sim.timeline.In(Seconds(60), [&] { sim.Apply(1, 2); });
  sim.Run(Seconds(80));
}

// Repeats until it succeeds, or until the call is stopped.
void ScaleExperts(SimulatedService& sim, int replicas) {
  const ApiResult<Node> scaled =
      sim.user.Patch(kRoleScalers, {"default", "demo-experts"}, PatchKind::kMerge,
                     Object({{"spec", Object({{"replicas", Node::Integer(replicas)}})}}),
                     Subresource::kScale, {}, kLimits);
  if (scaled.ok() || FindAt(sim.Service(), {"spec", "roles", "experts", "scaling"}) == nullptr) {
    return;
  }
  sim.timeline.In(Seconds(1), [&sim, replicas] { ScaleExperts(sim, replicas); });
}

// Created, scaled from outside, scaled, taken back.
void LiveScaled(SimulatedService& sim) {
  sim.Apply(1, 2);
  const auto experts = [&sim](const char* patch) {
    sim.Patch(std::string(R"({"spec":{"roles":{"experts":)") + patch + "}}}");
  };
  sim.timeline.In(Seconds(20),
                  [=] { experts(R"({"replicas":null,"scaling":{"mode":"External"}})"); });
  sim.timeline.In(Seconds(30), [&] { ScaleExperts(sim, 3); });
  sim.timeline.In(Seconds(60), [=] { experts(R"({"replicas":2,"scaling":null})"); });
  sim.Run(Seconds(80));
}

// Created, then replaced by another model side by side.
void LiveReplaced(SimulatedService& sim) {
  sim.planner.digest_of = {{"/models/other", "digest-2"}};
  sim.Apply(1, 2, std::string("  rollout: {type: SideBySide, drainSeconds: 20}\n") + kClosed);
  sim.timeline.In(Seconds(20), [&] {
    sim.Patch(R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/other"}}}}})");
  });
  sim.Run(Seconds(80));
}

struct Life {
  void (*live)(SimulatedService&);
  size_t pods;          // used in total
  size_t calls;         // at least
  size_t policies = 0;  // at the end
};

// Nothing is in progress, and all pods are wanted.
void ExpectConverged(SimulatedService& sim, const Life& life) {
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.List(kNetworkPolicies).size(), life.policies);
  EXPECT_TRUE(sim.List(kRoleScalers).empty());
  for (const Resource* resource : {&kServices, &kDeployments, &kServiceAccounts, &kTopologies}) {
    EXPECT_EQ(sim.List(*resource).size(), resource == &kServices ? 2u : 1u) << resource->ToString();
  }
}

// 1A2E, then 2A3E, then one more to replace the deleted one.
constexpr Life kOrdinary{Live, 6, 60};
constexpr Life kScaled{LiveScaled, 4, 50};
constexpr Life kReplaced{LiveReplaced, 6, 50, 2};

TEST(ReconcilerFaults, UndisturbedNoPodIsMadeTooMuch) {
  for (const Life& life : {kOrdinary, kScaled, kReplaced}) {
    SimulatedService sim;
    life.live(sim);
    ExpectConverged(sim, life);
    EXPECT_EQ(sim.cluster.pods_ever().size(), life.pods);
  }
}

// False: there are not that many calls.
bool PlayKilled(const Life& life, size_t at, bool is_done) {
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
  life.live(sim);
  if (!was_killed) return false;
  ExpectConverged(sim, life);
  EXPECT_EQ(sim.cluster.pods_ever().size(), life.pods);
  EXPECT_EQ(sim.workers.refused(), 0);
  return !testing::Test::HasFailure();
}

// In the gate the two kinds of kill alternate, call by call; beyond it, all calls see both.
void KillAt(const Life& life, size_t first, bool is_done) {
  const auto stride =
      static_cast<size_t>(HowMany({.sanitized = 6, .gate = 2, .nightly = 1, .soak = 1}));
  size_t at = stride == 1 ? 0 : first;
  while (PlayKilled(life, at, is_done)) at += stride;
  std::printf("killed %s calls up to %zu\n", is_done ? "after" : "before", at);
  EXPECT_GT(at, life.calls);
}

TEST(ReconcilerFaults, KilledBeforeACallItsSuccessorEndsWhereItWouldHave) {
  KillAt(kOrdinary, 0, false);
  KillAt(kScaled, 0, false);
  KillAt(kReplaced, 0, false);
}

TEST(ReconcilerFaults, KilledAfterACallItsSuccessorMakesNothingTwice) {
  KillAt(kOrdinary, 1, true);
  KillAt(kScaled, 1, true);
  KillAt(kReplaced, 1, true);
}

CallCounts PlayFaults(const Life& life, std::vector<FaultPlan> plans) {
  SimulatedService sim;
  FaultyApi api(sim.operator_client, std::move(plans), sim.timeline);
  sim.RestartOperator(&api);
  life.live(sim);
  // A refusal that only people can fix is retried after five minutes, and a sweep refuses a call up
  // to four times in a row.
  sim.Run(Seconds(1300));
  ExpectConverged(sim, life);
  const CallCounts counts = api.counts();
  sim.RestartOperator();  // ends its running calls
  return counts;
}

TEST(ReconcilerFaults, WhateverEverySeventhCallComesToItConverges) {
  for (const Fault& fault : CallFaults()) {
    SCOPED_TRACE(fault.ToString());
    std::vector<FaultPlan> plans;
    for (size_t first = 3; first < 100; first += 7) plans.push_back({first, 1, fault});
    EXPECT_GT(PlayFaults(kOrdinary, plans).failed, 5u);
    EXPECT_GT(PlayFaults(kScaled, plans).failed, 5u);
    EXPECT_GT(PlayFaults(kReplaced, std::move(plans)).failed, 5u);
  }
}

// One test per life, so that they can run in parallel.
void SweepLife(const char* name, const Life& life) {
  if (!Soak()) GTEST_SKIP() << "a quarter of an hour: set JANUS_SOAK";
  SweepFaults(
      name, CallFaults(),
      [&](std::vector<FaultPlan> plans) { return PlayFaults(life, std::move(plans)); }, 500);
}

TEST(ReconcilerFaults, WhateverCallFailsItConverges) {
  SweepLife("ordinary life", kOrdinary);
}

TEST(ReconcilerFaults, WhateverCallFailsWhatIsScaledConverges) {
  SweepLife("scaled from outside", kScaled);
}

TEST(ReconcilerFaults, WhateverCallFailsWhatIsReplacedConverges) {
  SweepLife("replaced", kReplaced);
}

}  // namespace
}  // namespace janus::control
