// Two releases of the operator that watch one namespace.

#include <gtest/gtest.h>

#include <optional>

#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/claim/claim.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

// A service whose operator is of release a/janus, and another release that can be started.
class TwoReleases : public testing::Test {
 protected:
  TwoReleases() {
    sim_.options.release = "a/janus";
    sim_.RestartOperator();
    sim_.on_step = [this] {
      if (other_) other_->Step();
    };
  }
  void StartOther() {
    ReconcilerOptions options = sim_.options;
    options.release = "b/janus";
    other_.emplace(client_, sim_.store, planner_, sim_.workers, sim_.timeline, options);
  }
  // Changes with every write of the service or its topology.
  std::string Versions() {
    std::string out(ResourceVersionOf(sim_.Service()));
    for (const Node& one : sim_.List(kTopologies)) out += "," + std::string(ResourceVersionOf(one));
    return out;
  }

  SimulatedService sim_;
  StoreClient client_{sim_.store, "janus-operator"};
  ScriptedPlanner planner_;
  std::optional<OperatorProcess> other_;
};

TEST_F(TwoReleases, TheSecondWritesNothingAndTheStatusNamesBoth) {
  sim_.Apply(1, 2);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Complete");
  EXPECT_EQ(ClaimOf(sim_.Service()).holder, "a/janus");
  const int64_t fence = sim_.Topology()->spec.fence;
  StartOther();
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.Condition("Progressing"), "False/AnotherOperator");
  EXPECT_TRUE(Contains(sim_.MessageOf("Progressing"), "release b/janus watches this service too"));
  EXPECT_TRUE(Contains(sim_.MessageOf("Progressing"), "Release a/janus keeps it"));
  EXPECT_EQ(sim_.Condition("Ready"), "True/AsWanted");
  EXPECT_EQ(other_->CountEvents("AnotherOperator"), 1);
  const std::string versions = Versions();
  sim_.Run(Seconds(500));
  EXPECT_EQ(Versions(), versions) << "both are quiet";
  sim_.Run(Seconds(500));
  EXPECT_EQ(sim_.Condition("Progressing"), "False/AnotherOperator") << "it has asked again";
  EXPECT_EQ(sim_.Topology()->spec.fence, fence);
  // A restarted holder answers too.
  sim_.RestartOperator();
  sim_.Run(Seconds(1200));
  EXPECT_EQ(ClaimOf(sim_.Service()), (Claim{"a/janus", ""}));
  other_.reset();
  sim_.Run(kRivalFor + Seconds(1));
  EXPECT_EQ(sim_.Condition("Progressing"), "True/Complete");
  sim_.ExpectWhole(1, 2);
}

TEST_F(TwoReleases, OfTwoThatStartTogetherOneMakesTheService) {
  StartOther();
  sim_.Apply(1, 2);
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(5));
  EXPECT_EQ(sim_.List(kPods).size(), 3u);
  EXPECT_EQ(sim_.Topology()->spec.fence, 1);
  EXPECT_EQ(other_->CountEvents("Created"), 0);
  sim_.ExpectWhole(1, 2);
}

TEST_F(TwoReleases, WhatAReleaseLeftIsTakenOver) {
  sim_.Apply(1, 2);
  ASSERT_TRUE(sim_.user
                  .Patch(kMoEServices, {"default", "demo"}, PatchKind::kMerge,
                         *ParseJson(R"({"status":{"operator":{"name":"gone/janus"}}})", "patch"),
                         Subresource::kStatus, {}, {})
                  .ok());
  sim_.Run(kAnswer - Seconds(2));
  EXPECT_TRUE(sim_.List(kPods).empty());
  EXPECT_EQ(ClaimOf(sim_.Service()), (Claim{"gone/janus", "a/janus"}));
  sim_.RunUntil("Ready");
  EXPECT_EQ(ClaimOf(sim_.Service()), (Claim{"a/janus", ""}));
}

}  // namespace
}  // namespace janus::control
