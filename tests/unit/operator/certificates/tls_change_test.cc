#include <gtest/gtest.h>

#include <set>

#include "tests/support/contains.h"
#include "tests/support/reconcile/certified_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

// Tests edits of spec.security.tls of a service.
struct TlsChange : testing::Test {
  TlsChange() {
    sim.on_step = [this] {
      ASSERT_LE(KindsOf(Role::kAttention, Role::kExperts).size(), 1u) << "they would meet";
    };
  }
  void Start(const std::string& more = "") {
    sim.Apply(1, 2, more);
    sim.RunUntil("Ready");
  }
  std::set<bool> KindsOf(Role one, Role other) {
    std::set<bool> kinds;
    for (const Role role : {one, other}) {
      for (const PodSeen& pod : sim.Pods(role)) kinds.insert(pod.uses_tls);
    }
    return kinds;
  }
  std::set<bool> Kinds() { return KindsOf(Role::kAttention, Role::kExperts); }
  bool GatewayUsesTls() {
    const Node gateway = *sim.Get(kDeployments, "demo-gateway");
    const Node* volumes = FindAt(gateway, {"spec", "template", "spec", "volumes"});
    return volumes != nullptr &&
           std::any_of(volumes->items.begin(), volumes->items.end(),
                       [](const Node& one) { return TextAt(one, {"name"}) == kTrustVolume; });
  }
  void Lose(Role role) {
    ASSERT_TRUE(sim.user.Delete(kPods, {"default", sim.Pods(role)[0].name}, {}, kLimits).ok());
  }

  CertifiedDemo sim;
};

TEST_F(TlsChange, IsHeldWhileTheServiceRunsAndAllElseGoesOn) {
  Start();
  const auto before = sim.cluster.pods_ever();
  sim.Patch(R"({"spec":{"security":{"tls":"Disabled"},"roles":{"attention":{"replicas":2}}}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("Ready"), "False/NotSupported");
  EXPECT_EQ(sim.Condition("Stalled"), "True/NotSupported");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_TRUE(Contains(sim.MessageOf("Ready"), "spec.security.tls"));
  EXPECT_TRUE(Contains(sim.MessageOf("Ready"), "stays with TLS; to change it, set"));
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 2u) << "other edits are carried out";
  Lose(Role::kExperts);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 2u) << "losses are mended";
  EXPECT_EQ(Kinds(), std::set{true});
  EXPECT_TRUE(GatewayUsesTls());
  EXPECT_EQ(TextAt(sim.Service(), {"status", "effective", "tls"}), "Enabled") << "as it is";
  EXPECT_EQ(sim.cluster.pods_ever().size(), before.size() + 2);

  sim.Patch(R"({"spec":{"security":null}})");
  sim.RunUntil("Ready");
  sim.ExpectWhole(2, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), before.size() + 2) << "nobody was replaced";
}

TEST_F(TlsChange, IsHeldTheOtherWayRoundToo) {
  Start("  security: {tls: Disabled}\n");
  sim.Patch(R"({"spec":{"security":{"tls":"Auto"}}})");
  Lose(Role::kAttention);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("Stalled"), "True/NotSupported");
  EXPECT_TRUE(Contains(sim.MessageOf("Ready"), "stays without TLS"));
  EXPECT_EQ(Kinds(), std::set{false});
  EXPECT_FALSE(GatewayUsesTls());
  const auto calls = sim.keeper->ForCalls(sim.Uid());
  EXPECT_TRUE(calls.ok() && !*calls) << "we call them as they are";
}

TEST_F(TlsChange, IsHeldByAServiceThatIsPaused) {
  Start();
  sim.Patch(R"({"spec":{"paused":true,"security":{"tls":"Disabled"}}})");
  Lose(Role::kExperts);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 2u);
  EXPECT_EQ(Kinds(), std::set{true});
}

TEST_F(TlsChange, IsCarriedOutOnceASuspendedServicesPodsAreGone) {
  Start();
  sim.cluster.end_time = Seconds(10);  // they drain
  sim.Patch(R"({"spec":{"suspend":true,"security":{"tls":"Disabled"}}})");
  sim.Run(Seconds(5));
  EXPECT_FALSE(sim.List(kPods).empty());
  EXPECT_TRUE(GatewayUsesTls()) << "what drains is called";
  EXPECT_EQ(sim.Condition("Stalled"), "False/Reconciling");
  sim.Run(Seconds(20));
  EXPECT_TRUE(sim.Pods(Role::kExperts).empty());
  EXPECT_FALSE(GatewayUsesTls());
  sim.Patch(R"({"spec":{"suspend":false}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(10));
  EXPECT_EQ(Kinds(), std::set{false});
  sim.ExpectWhole(1, 2);
}

// If the suspension is withdrawn at once, new pods start beside those that drain.
TEST_F(TlsChange, IsCarriedOutBesidePodsThatLeave) {
  Start();
  sim.cluster.end_time = Seconds(30);
  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(5));
  sim.Patch(R"({"spec":{"suspend":false,"security":{"tls":"Disabled"}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(60));
  EXPECT_EQ(Kinds(), std::set{false});
  sim.ExpectWhole(1, 2);
}

}  // namespace
}  // namespace janus::control
