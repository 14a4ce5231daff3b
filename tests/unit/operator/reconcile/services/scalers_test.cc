// A service with roles in mode External, on the store in this process, in simulated time, and tests
// of the pure functions.

#include "operator/reconcile/children/scalers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/status/conditions.h"
#include "tests/support/kube/faulty_api.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;
constexpr char kExternal[] = R"({"replicas":null,"scaling":{"mode":"External"}})";

// Like `kubectl scale moerolescaler`.
void Scale(SimulatedService& sim, Role role, int replicas) {
  const ApiResult<Node> scaled =
      sim.user.Patch(kRoleScalers, {"default", RoleObjectName("demo", role)}, PatchKind::kMerge,
                     Object({{"spec", Object({{"replicas", Node::Integer(replicas)}})}}),
                     Subresource::kScale, {}, kLimits);
  ASSERT_TRUE(scaled.ok()) << scaled.error().message;
}

// What an autoscaler reads.
Node ScaleOf(SimulatedService& sim, Role role) {
  return *sim.user.Get(kRoleScalers, {"default", RoleObjectName("demo", role)}, Subresource::kScale,
                       kLimits);
}

// A merge patch of spec.roles.
void PatchRoles(SimulatedService& sim, const std::string& attention, const std::string& experts) {
  sim.Patch(R"({"spec":{"roles":{"attention":)" + attention + R"(,"experts":)" + experts + "}}}");
}

std::string ReadyOf(SimulatedService& sim, Role role) {
  const std::optional<Node> scaler = sim.Get(kRoleScalers, RoleObjectName("demo", role));
  if (!scaler) return "";
  const std::vector<Condition> all = ReadConditions(*scaler);
  if (all.size() != 1 || all[0].type != "Ready") return "";
  return (all[0].status == ConditionStatus::kTrue ? "True/" : "False/") + all[0].reason;
}

// Waits until both roles have the requested count and all objects report it.
void Settle(SimulatedService& sim, int attention, int experts) {
  sim.Run(Seconds(2));
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(attention, experts);
}

// The service "demo" with both roles in mode External, starting from 1A2E.
void Begin(SimulatedService& sim) {
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  PatchRoles(sim, kExternal, kExternal);
  Settle(sim, 1, 2);
}

TEST(External, AScalerComesWithTheCountThereIsAndNothingElseMoves) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  EXPECT_TRUE(sim.List(kRoleScalers).empty());
  PatchRoles(sim, "{}", kExternal);
  Settle(sim, 1, 2);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 1);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  ASSERT_EQ(sim.List(kRoleScalers).size(), 1u) << "of that role alone";
  const Node scaler = *sim.Get(kRoleScalers, "demo-experts");
  EXPECT_TRUE(IsControlledBy(scaler, UidOf(sim.Service())));
  EXPECT_EQ(TextAt(scaler, {"spec", "service"}), "demo");
  EXPECT_EQ(TextAt(scaler, {"spec", "role"}), "experts");
  EXPECT_EQ(AskedOf(scaler), 2);
  const Node scale = ScaleOf(sim, Role::kExperts);
  EXPECT_EQ(IntegerAt(scale, {"status", "replicas"}), 2);
  EXPECT_EQ(TextAt(scale, {"status", "selector"}),
            "serving.janus.dev/service=demo,serving.janus.dev/role=experts,"
            "serving.janus.dev/member=true");
  EXPECT_EQ(ReadyOf(sim, Role::kExperts), "True/AsWanted");
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/External");
  EXPECT_NE(sim.MessageOf("ScalingReady").find("experts"), std::string::npos);
  EXPECT_EQ(sim.op().CountEvents("ScaledUp") + sim.op().CountEvents("ScaledDown"), 0);
}

TEST(External, IsNoModeSloWhileItsModelIsNotKnown) {
  SimulatedService sim;
  Begin(sim);
  sim.planner.fails = Unavailable("no worker has read the model yet");
  sim.Patch(R"({"metadata":{"labels":{"a":"b"}}})");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/External");
}

TEST(External, CountsFollowTheScalersEachForItself) {
  SimulatedService sim;
  Begin(sim);
  Scale(sim, Role::kExperts, 4);
  sim.Run(Seconds(1));
  EXPECT_EQ(ReadyOf(sim, Role::kExperts), "False/WaitingForPods");
  EXPECT_EQ(IntegerAt(ScaleOf(sim, Role::kExperts), {"status", "replicas"}), 2)
      << "pods that are no members do not count";
  EXPECT_EQ(sim.Condition("ExpertsReady"), "False/WaitingForPods");
  EXPECT_EQ(sim.Condition("AttentionReady"), "True/AsWanted");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  Settle(sim, 1, 4);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, 2);
  EXPECT_EQ(IntegerAt(ScaleOf(sim, Role::kExperts), {"status", "replicas"}), 4);
  EXPECT_EQ(sim.op().LastText("ScaledUp"), "experts: from 2 to 4 instances");
  Scale(sim, Role::kAttention, 3);
  Settle(sim, 3, 4);
  Scale(sim, Role::kExperts, 2);
  Settle(sim, 3, 2);
  EXPECT_EQ(sim.op().LastText("ScaledDown"), "experts: from 4 to 2 instances");
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-attention")), 3);
}

TEST(External, WhatIsAskedForIsNeverWritten) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  FaultyApi counted(sim.operator_client, {}, sim.timeline);
  sim.RestartOperator(&counted);
  PatchRoles(sim, "{}", kExternal);
  Settle(sim, 1, 2);
  for (const int replicas : {4, 3}) {
    Scale(sim, Role::kExperts, replicas);
    Settle(sim, 1, replicas);
    EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), replicas);
  }
  std::map<std::string, int> verbs;
  for (const std::string& call : counted.calls()) {
    if (call.find("moerolescalers") != std::string::npos) ++verbs[call.substr(0, call.find(' '))];
  }
  EXPECT_EQ(verbs["create"], 1);
  EXPECT_EQ(verbs["apply"] + verbs["patch"], 0);
  EXPECT_GE(verbs["update"], 4) << "of its status";
  sim.RestartOperator();  // ends its running calls
}

TEST(External, ItIsBoundedByTheSpecAndSaysWho) {
  SimulatedService sim;
  Begin(sim);
  PatchRoles(sim, R"({"scaling":{"minReplicas":1}})",
             R"({"scaling":{"minReplicas":2,"maxReplicas":3}})");
  Scale(sim, Role::kExperts, 9);
  Settle(sim, 1, 3);
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/AtMax");
  EXPECT_EQ(sim.MessageOf("ScalingReady"),
            "MoERoleScaler demo-experts asks for 9; spec.roles.experts.scaling.maxReplicas is 3");
  EXPECT_EQ(ReadyOf(sim, Role::kExperts), "True/AtMax");
  EXPECT_EQ(ReadyOf(sim, Role::kAttention), "True/AsWanted");
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), 9) << "it stays the user's";
  Scale(sim, Role::kExperts, 0);
  Scale(sim, Role::kAttention, 0);
  Settle(sim, 1, 2);
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/AtMin");
  EXPECT_NE(sim.MessageOf("ScalingReady").find("demo-attention asks for 0"), std::string::npos);
  EXPECT_NE(sim.MessageOf("ScalingReady").find("demo-experts asks for 0"), std::string::npos);
  // With other bounds, the count follows the request that was made before.
  Scale(sim, Role::kExperts, 9);
  PatchRoles(sim, "{}", R"({"scaling":{"maxReplicas":5}})");
  Settle(sim, 1, 5);
}

TEST(External, ItIsBoundedByWhatTheModelNeeds) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(10));
  PatchRoles(sim, "{}", R"({"replicas":null,"slotsPerInstance":4,"scaling":{"mode":"External"}})");
  sim.Patch(R"({"spec":{"suspend":false}})");
  Settle(sim, 1, 2);
  Scale(sim, Role::kExperts, 1);
  sim.Run(Seconds(10));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/AtMin");
  EXPECT_EQ(sim.MessageOf("ScalingReady"),
            "MoERoleScaler demo-experts asks for 1; the model's experts need 2 instances of 4 "
            "slots");
  PatchRoles(sim, "{}", R"({"scaling":{"maxReplicas":1}})");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(sim.MessageOf("Stalled").find("spec.roles.experts.scaling.maxReplicas: is 1"),
            std::string::npos)
      << sim.MessageOf("Stalled");
  EXPECT_EQ(ReadyOf(sim, Role::kExperts), "False/InvalidSpec");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
}

TEST(External, WhatHasNoRoomIsSaidAndWhatServesStays) {
  SimulatedService sim;
  Begin(sim);
  sim.planner.room.memory_bytes = int64_t{300} << 20;
  Scale(sim, Role::kAttention, 200);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("ScalingReady"), "False/InsufficientCapacity");
  EXPECT_EQ(sim.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_EQ(ReadyOf(sim, Role::kAttention), "False/InsufficientCapacity");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 1u);
  sim.planner.room.memory_bytes = int64_t{256} << 30;
  Scale(sim, Role::kAttention, 2);
  Settle(sim, 2, 2);
}

TEST(External, IntoTheModeAndBackKeepsTheCounts) {
  SimulatedService sim;
  Begin(sim);
  sim.Patch(R"({"spec":{"slo":{"tpot":{"targetMilliseconds":60}}}})");
  Scale(sim, Role::kExperts, 3);
  Settle(sim, 1, 3);
  const int64_t epoch = sim.Topology()->spec.committed->epoch;
  PatchRoles(sim, R"({"replicas":1,"scaling":null})", R"({"replicas":3,"scaling":null})");
  Settle(sim, 1, 3);
  EXPECT_TRUE(sim.List(kRoleScalers).empty());
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/Static");
  PatchRoles(sim, kExternal, kExternal);
  Settle(sim, 1, 3);
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), 3);
  // Mode SLO keeps the minimum.
  PatchRoles(sim, "{}", R"({"scaling":{"mode":"SLO","minReplicas":3}})");
  Settle(sim, 1, 3);
  EXPECT_EQ(sim.List(kRoleScalers).size(), 1u);
  EXPECT_EQ(sim.Condition("ScalingReady"), "False/NoMetrics") << sim.MessageOf("ScalingReady");
  sim.Patch(R"({"spec":{"roles":{"experts":{"scaling":{"mode":"External","minReplicas":null}}}}})");
  Settle(sim, 1, 3);
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), 3);
  EXPECT_EQ(sim.Topology()->spec.committed->epoch, epoch) << "nothing was prepared for any of it";
}

TEST(External, AServiceThatBeginsWithItBeginsWithTheFewest) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.Delete();
  sim.Run(Seconds(10));
  const ApiResult<Node> made = sim.user.Create(
      kMoEServices,
      Object({{"apiVersion", Text("serving.janus.dev/v1alpha1")},
              {"kind", Text("MoEService")},
              {"metadata", Object({{"name", Text("demo")}, {"namespace", Text("default")}})},
              {"spec", *ParseJson(R"({"model":{"source":{"type":"HostPath","hostPath":)"
                                  R"({"path":"/models/demo"}}},"roles":{"attention":{"scaling":)"
                                  R"({"mode":"External","minReplicas":2}},"experts":)"
                                  R"({"slotsPerInstance":3,"scaling":{"mode":"External"}}}})",
                                  "spec")}}),
      {}, kLimits);
  ASSERT_TRUE(made.ok()) << made.error().message;
  Settle(sim, 2, 3);
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-attention")), 2);
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), 3);
}

TEST(External, AsleepItKeepsWhatIsAskedForAndWakesUpToIt) {
  SimulatedService sim;
  Begin(sim);
  Scale(sim, Role::kExperts, 3);
  Settle(sim, 1, 3);
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(10));
  EXPECT_TRUE(sim.List(kPods).empty());
  EXPECT_EQ(IntegerAt(ScaleOf(sim, Role::kExperts), {"status", "replicas"}), 0);
  EXPECT_EQ(ReadyOf(sim, Role::kExperts), "True/Suspended");
  Scale(sim, Role::kExperts, 4);
  sim.Run(Seconds(10));
  EXPECT_TRUE(sim.List(kPods).empty());
  sim.Patch(R"({"spec":{"suspend":false}})");
  Settle(sim, 1, 4);
}

TEST(External, WithoutTheOtherRoleItSleeps) {
  for (const char* zero : {"attention", "experts"}) {
    SCOPED_TRACE(zero);
    SimulatedService sim;
    Begin(sim);
    const std::string none = R"({"replicas":0,"scaling":null})";
    PatchRoles(sim, *zero == 'a' ? none : "{}", *zero == 'e' ? none : "{}");
    sim.Run(Seconds(20));
    EXPECT_TRUE(sim.List(kPods).empty());
    EXPECT_EQ(sim.Condition("Available"), "False/Suspended");
    for (const char* type : {"Ready", "Available", "TopologyReady", "ExpertsReady"}) {
      EXPECT_EQ(sim.MessageOf(type),
                "no instance serves: spec.roles." + std::string(zero) + ".replicas is 0");
    }
    PatchRoles(sim, kExternal, kExternal);
    Settle(sim, 1, 2);
  }
}

TEST(External, WhoseModeIsChangedAsleepKeepsItsCounts) {
  SimulatedService sim;
  sim.Apply(2, 3);
  sim.RunUntil("Ready");
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(10));
  PatchRoles(sim, kExternal, kExternal);
  sim.Run(Seconds(5));
  sim.Patch(R"({"spec":{"suspend":false}})");
  Settle(sim, 2, 3);
}

TEST(External, PausedItWaitsAndSaysSo) {
  SimulatedService sim;
  Begin(sim);
  sim.Patch(R"({"spec":{"paused":true}})");
  Scale(sim, Role::kExperts, 4);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  EXPECT_EQ(sim.Condition("ScalingReady"), "False/Paused");
  EXPECT_EQ(ReadyOf(sim, Role::kExperts), "False/Paused");
  EXPECT_EQ(ReadyOf(sim, Role::kAttention), "True/AsWanted");
  sim.Patch(R"({"spec":{"paused":false}})");
  Settle(sim, 1, 4);
}

TEST(External, AForeignScalerIsNeverTouchedAndTheCountStays) {
  SimulatedService sim;
  const Node foreign = Object(
      {{"apiVersion", Text(kRoleScalers.ApiVersion())},
       {"kind", Text("MoERoleScaler")},
       {"metadata", Object({{"name", Text("demo-experts")}, {"namespace", Text("default")}})},
       {"spec", Object({{"service", Text("demo")},
                        {"role", Text("experts")},
                        {"replicas", Node::Integer(7)}})}});
  const ApiResult<Node> before = sim.user.Create(kRoleScalers, foreign, {}, kLimits);
  ASSERT_TRUE(before.ok()) << before.error().message;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  PatchRoles(sim, "{}", kExternal);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  EXPECT_EQ(ResourceVersionOf(*sim.Get(kRoleScalers, "demo-experts")), ResourceVersionOf(*before));
  EXPECT_EQ(sim.Condition("ScalingReady"), "False/AdoptRefused");
  EXPECT_GE(sim.op().CountEvents("AdoptRefused"), 1);
  // The mode has changed: the foreign scaler is not ours to delete.
  PatchRoles(sim, "{}", R"({"replicas":2,"scaling":null})");
  sim.Run(Seconds(10));
  EXPECT_EQ(ResourceVersionOf(*sim.Get(kRoleScalers, "demo-experts")), ResourceVersionOf(*before));
  PatchRoles(sim, "{}", kExternal);
  ASSERT_TRUE(sim.user.Delete(kRoleScalers, {"default", "demo-experts"}, {}, kLimits).ok());
  sim.Run(Seconds(320));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Condition("ScalingReady"), "True/External");
}

TEST(External, AScalerThatIsDeletedOrStrippedIsMended) {
  SimulatedService sim;
  Begin(sim);
  Scale(sim, Role::kExperts, 3);
  Settle(sim, 1, 3);
  ASSERT_TRUE(sim.user.Delete(kRoleScalers, {"default", "demo-experts"}, {}, kLimits).ok());
  sim.Run(Seconds(5));
  ASSERT_TRUE(sim.Get(kRoleScalers, "demo-experts"));
  EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), 3) << "with the count there is";
  for (const std::string_view label : {kServiceLabel, std::string_view("app.kubernetes.io/name")}) {
    Node scaler = *sim.Get(kRoleScalers, "demo-experts");
    SetAt(scaler, {"metadata", "labels", label}, Text("other"));
    SetAt(scaler, {"spec", "replicas"}, Node::Integer(2));
    ASSERT_TRUE(sim.user.Update(kRoleScalers, scaler, Subresource::kNone, {}, kLimits).ok());
    Settle(sim, 1, 2);
    EXPECT_NE(TextAt(*sim.Get(kRoleScalers, "demo-experts"), {"metadata", "labels", label}),
              "other");
    EXPECT_EQ(AskedOf(*sim.Get(kRoleScalers, "demo-experts")), 2);
    Scale(sim, Role::kExperts, 3);
    Settle(sim, 1, 3);
  }
}

TEST(External, AtRestItWritesNothing) {
  SimulatedService sim;
  Begin(sim);
  sim.Run(Seconds(65));
  FaultyApi counted(sim.operator_client, {}, sim.timeline);
  sim.RestartOperator(&counted);
  sim.Run(Seconds(630));
  // A new process raises the fence, once.
  EXPECT_EQ(counted.calls().size(), 1u) << testing::PrintToString(counted.calls());
  sim.RestartOperator();
}

TEST(External, AServiceThatIsDeletedTakesItsScalersAlong) {
  SimulatedService sim;
  Begin(sim);
  sim.Delete();
  sim.Run(Seconds(10));
  EXPECT_TRUE(sim.List(kRoleScalers).empty());
}

TEST(BoundBySpec, TakesTheDefaultsOfTheSchema) {
  MoEService service;
  service.metadata.name = "demo";
  RoleScaling external;
  external.mode = ScalingMode::kExternal;
  service.spec.roles.attention.scaling = service.spec.roles.experts.scaling = external;
  EXPECT_EQ(BoundBySpec(service, Role::kAttention, 1024).count, 256);
  EXPECT_EQ(BoundBySpec(service, Role::kExperts, 1024).count, 1024);
  EXPECT_EQ(BoundBySpec(service, Role::kExperts, 0).count, 1);
  EXPECT_FALSE(BoundBySpec(service, Role::kExperts, 5).limit);
}

}  // namespace
}  // namespace janus::control
