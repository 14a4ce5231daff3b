// Printed plans: what a pass would do in typical situations, depending on the observation only.

#include "operator/reconcile/pass/decide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "common/pools.h"
#include "operator/api/json.h"
#include "operator/reconcile/children/plan_children.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/reconcile/rollout/rollout.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

// Replaces revisions of pods and hashes of models by r1, r2, ... and t1, t2, ..., in order of
// appearance.
std::string WithoutHashes(const std::string& text) {
  static const std::regex pattern("-([b-df-hj-np-tv-xz2-9]{10})-([0-9]+)|demo-([0-9a-f]{10})");
  std::map<std::string, std::string> names;
  std::string out;
  auto at = text.cbegin();
  for (std::sregex_iterator one(text.begin(), text.end(), pattern), end; one != end; ++one) {
    const std::smatch& match = *one;
    out.append(at, match[0].first);
    at = match[0].second;
    const bool is_pod = match[1].matched;
    const std::string hash = is_pod ? match[1] : match[3];
    std::string& name = names[hash];
    if (name.empty()) name = (is_pod ? "r" : "t") + std::to_string(names.size());
    out += is_pod ? "-" + name + "-" + match[2].str() : "demo-" + name;
  }
  return out.append(at, text.cend());
}

class DecideTest : public testing::Test {
 protected:
  // The observation of a serving service.
  ServiceObserved Serving(int attention, int experts, const std::string& more = "") {
    sim_.Apply(attention, experts, more);
    sim_.RunUntil("Ready");
    sim_.Run(Seconds(10));
    return Seen();
  }
  ServiceObserved Seen() { return *sim_.op().Observe({"default", "demo"}); }
  // Like a user's edit of the newest spec.
  static void Edit(FieldPath path, Node value, ServiceObserved& seen) {
    SetAt(seen.tree, path, std::move(value));
    const int64_t generation = *IntegerAt(seen.tree, {"metadata", "generation"});
    SetAt(seen.tree, {"metadata", "generation"}, Node::Integer(generation + 1));
  }
  static void SetReplicas(std::string_view role, int replicas, ServiceObserved& seen) {
    Edit({"spec", "roles", role, "replicas"}, Node::Integer(replicas), seen);
  }
  static PodSeen& PodOf(Role role, ServiceObserved& seen) {
    return *std::find_if(seen.pods.begin(), seen.pods.end(),
                         [&](const PodSeen& pod) { return pod.role == role; });
  }
  static void Lose(PodSeen& pod, ServiceObserved& seen) {
    pod.is_lost = true;
    seen.alive.erase(InstanceOf(pod));
  }
  // Without the time of the next pass, which is the same in most situations.
  std::string Planned(const ServiceObserved& seen) {
    const std::string all = ToString(Decide(seen, sim_.op().options()), seen.now);
    return WithoutHashes(all.substr(0, all.rfind("look again")));
  }

  SimulatedService sim_;
};

TEST_F(DecideTest, TheOnlyGatewayOnACordonedNodeGetsASpareOne) {
  ServiceObserved seen = Serving(1, 2, "  gateway: {replicas: 1}\n");
  seen.gateway_pods = {{"demo-gateway-x", false, "", "a", false}};
  const std::string rest = Planned(seen);
  seen.gateway_pods[0].must_leave = true;
  EXPECT_EQ(Planned(seen), rest + "apply Deployment demo-gateway\n");
  const Plan plan = Decide(seen, sim_.op().options());
  const auto* const apply = std::get_if<ApplyChild>(&plan.work.back());
  ASSERT_NE(apply, nullptr);
  EXPECT_EQ(IntegerAt(apply->child.object, {"spec", "replicas"}), 2);
  seen.gateway_pods[0].is_leaving = true;
  EXPECT_EQ(Planned(seen), rest) << "it leaves already";
}

TEST_F(DecideTest, FirstCreation) {
  sim_.Apply(1, 2);
  EXPECT_EQ(Planned(Seen()),
            "ask workers (0 run)\n"
            "create ServiceAccount demo-worker\n"
            "create Service demo-members\n"
            "create Service demo\n"
            "create PodDisruptionBudget demo-gateway\n"
            "create Deployment demo-gateway\n"
            "reserve names of pods: attention to 1, experts to 2, image worker:1\n"
            "create Pod demo-attention-r1-1\n"
            "create Pod demo-experts-r1-1\n"
            "create Pod demo-experts-r1-2\n"
            "then:\n"
            "  write status: Ready False WaitingForPods, Progressing True Working\n");
}

TEST_F(DecideTest, AtRestThereIsNothingToDo) {
  EXPECT_EQ(Planned(Serving(1, 2)), "ask workers (3 run)\n");
}

TEST_F(DecideTest, PodsThatAreReadyBecomeAnEpoch) {
  ServiceObserved seen = Serving(1, 2);
  seen.topologies.clear();
  EXPECT_EQ(Planned(seen),
            "ask workers (3 run)\n"
            "delete PodDisruptionBudget demo-attention: the role has no members\n"
            "delete PodDisruptionBudget demo-experts: the role has no members\n"
            "create MoETopology demo-t1\n"
            "unlabel pod demo-attention-r2-1\n"
            "unlabel pod demo-experts-r2-1\n"
            "unlabel pod demo-experts-r2-2\n"
            "then:\n"
            "  write status: Ready False WaitingForPods, Progressing True Working\n");
}

TEST_F(DecideTest, ScaleUp) {
  ServiceObserved seen = Serving(1, 2);
  SetReplicas("experts", 4, seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (3 run)\n"
            "reserve names of pods: attention to 1, experts to 4, image worker:1\n"
            "create Pod demo-experts-r1-3\n"
            "create Pod demo-experts-r1-4\n"
            "then:\n"
            "  write status: Ready False WaitingForPods, Progressing True Working\n"
            "  event ScaledUp: experts: from 2 to 4 instances\n");
}

TEST_F(DecideTest, ScaleDown) {
  ServiceObserved seen = Serving(1, 3);
  SetReplicas("experts", 2, seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (4 run)\n"
            "propose epoch 2 of demo-t1: 1A2E\n"
            "then:\n"
            "  write status: Ready False WaitingForPods, Progressing True Working\n"
            "  event ScaledDown: experts: from 3 to 2 instances\n");
}

TEST_F(DecideTest, ALostPod) {
  ServiceObserved seen = Serving(1, 2);
  Lose(PodOf(Role::kExperts, seen), seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (2 run)\n"
            "reserve names of pods: attention to 1, experts to 3, image worker:1\n"
            "create Pod demo-experts-r1-3\n"
            "propose epoch 2 of demo-t2: 1A1E\n"
            "then:\n"
            "  write status: Ready False TopologyNotReady, Progressing True Working\n");
}

TEST_F(DecideTest, AnotherModelSideBySide) {
  sim_.planner.digest_of = {{"/models/other", "digest-2"}};
  ServiceObserved seen = Serving(1, 2, "  rollout: {type: SideBySide}\n");
  Edit({"spec", "model", "source", "hostPath", "path"}, Node::String("/models/other"), seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (0 run)\n"
            "reserve names of pods: attention to 2, experts to 4, image worker:1\n"
            "create Pod demo-attention-r1-2\n"
            "create Pod demo-experts-r1-3\n"
            "create Pod demo-experts-r1-4\n"
            "ask workers of the old side (3 run)\n"
            "create MoETopology demo-t2\n"
            "then:\n"
            "  write status: Ready False WaitingForPods, Progressing True Replacing\n");
}

TEST_F(DecideTest, AnotherModelByRecreation) {
  sim_.planner.digest_of = {{"/models/other", "digest-2"}};
  ServiceObserved seen = Serving(1, 2, "  rollout: {type: Recreate}\n");
  Edit({"spec", "model", "source", "hostPath", "path"}, Node::String("/models/other"), seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (3 run)\n"
            "end epoch 1 of demo-t1: the model has changed, and spec.rollout.type is Recreate\n"
            "then:\n"
            "  write status: Ready False WaitingForPods, Progressing True Working\n");
}

TEST_F(DecideTest, AnInvalidSpecIsReportedAndWhatServesIsMended) {
  ServiceObserved seen = Serving(1, 2);
  Edit({"spec", "roles", "experts", "slotsPerInstance"}, Node::Integer(0), seen);
  Lose(PodOf(Role::kExperts, seen), seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (2 run)\n"
            "reserve names of pods: attention to 1, experts to 3, image worker:1\n"
            "create Pod demo-experts-r1-3\n"
            "propose epoch 2 of demo-t2: 1A1E\n"
            "then:\n"
            "  write status: Ready False InvalidSpec, Progressing False InvalidSpec\n"
            "  event InvalidSpec: spec.roles.experts.slotsPerInstance: is 0; want 1..4096\n");
}

TEST_F(DecideTest, WhilePausedCountsStay) {
  ServiceObserved seen = Serving(1, 2);
  Edit({"spec", "paused"}, Node::Bool(true), seen);
  SetReplicas("experts", 4, seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (3 run)\n"
            "then:\n"
            "  write status: Ready True AsWanted, Progressing True Complete\n");
}

TEST_F(DecideTest, ASuspendedServiceHasNoPods) {
  ServiceObserved seen = Serving(1, 2);
  Edit({"spec", "suspend"}, Node::Bool(true), seen);
  EXPECT_EQ(Planned(seen),
            "ask workers (3 run)\n"
            "delete PodDisruptionBudget demo-attention: the role has no members\n"
            "delete PodDisruptionBudget demo-experts: the role has no members\n"
            "unlabel pod demo-attention-r1-1\n"
            "unlabel pod demo-experts-r1-1\n"
            "unlabel pod demo-experts-r1-2\n"
            "then:\n"
            "  write status: Ready False Suspended, Progressing True Working\n"
            "  event ScaledDown: attention: from 1 to 0 instances\n"
            "  event ScaledDown: experts: from 2 to 0 instances\n");
}

TEST_F(DecideTest, AScalerFromOutsideSaysHowMany) {
  sim_.Apply(1, 2);
  sim_.Patch(R"({"spec":{"roles":{"experts":{"replicas":null,"scaling":{"mode":"External"}}}}})");
  sim_.RunUntil("Ready");
  sim_.Run(Seconds(10));
  ServiceObserved seen = Seen();
  Node& scaler = seen.children.at({kRoleScalers.plural, "demo-experts"}).object;
  SetAt(scaler, {"spec", "replicas"}, Node::Integer(3));
  EXPECT_EQ(Planned(seen),
            "ask workers (2 run)\n"
            "reserve names of pods: attention to 1, experts to 3, image worker:1\n"
            "create Pod demo-experts-r1-2\n"
            "create Pod demo-experts-r1-3\n"
            "then:\n"
            "  write status of MoERoleScaler demo-experts\n"
            "  write status: Ready False WaitingForPods, Progressing True Working\n"
            "  event ScaledUp: experts: from 1 to 3 instances\n");
}

TEST_F(DecideTest, AServiceThatIsBeingDeletedIsNotObserved) {
  Serving(1, 2);
  sim_.Patch(R"({"metadata":{"finalizers":["example.com/keeps-it"]}})");
  sim_.Delete();
  ASSERT_TRUE(sim_.Get(kMoEServices, "demo")) << "its finalizer keeps it";
  EXPECT_FALSE(sim_.op().Observe({"default", "demo"}));
}

TEST_F(DecideTest, ACallThatWasRefusedIsLeftOutAndReported) {
  ServiceObserved seen = Serving(1, 2);
  SetReplicas("experts", 4, seen);
  Plan plan = Decide(seen, sim_.op().options());
  std::string call;
  for (const Action& action : plan.work) {
    if (std::holds_alternative<MakePod>(action)) {
      call = CallOf(action);
      break;
    }
  }
  seen.refused.push_back(
      {call, {RefusalKind::kCapacity, {"QuotaExceeded", call + ": exceeded quota"}, {}}, true});
  EXPECT_EQ(Planned(seen),
            "ask workers (3 run)\n"
            "reserve names of pods: attention to 1, experts to 4, image worker:1\n"
            "then:\n"
            "  write status: Ready False QuotaExceeded, Progressing True Working\n"
            "  event InsufficientCapacity: create Pod demo-experts-r1-3: exceeded quota; raise the "
            "quota, or lower resources or replicas\n"
            "  event ScaledUp: experts: from 2 to 4 instances\n");
}

TEST_F(DecideTest, TheSameObservationGivesTheSamePlan) {
  ServiceObserved seen = Serving(2, 3);
  SetReplicas("attention", 3, seen);
  const ServiceObserved same = seen;
  EXPECT_EQ(Planned(seen), Planned(same));
  sim_.Run(Seconds(30));  // the observation stays the same
  EXPECT_EQ(Planned(seen), Planned(same));
}

// A child that is not observed would be created in every round.
TEST_F(DecideTest, EveryChildThatMayBeWantedIsObserved) {
  ServiceObserved seen = Serving(1, 2);
  Edit({"spec", "security", "networkPolicy"}, Node::Bool(true), seen);
  Edit({"spec", "gateway", "replicas"}, Node::Integer(3), seen);
  for (const std::string_view role : {"attention", "experts"}) {
    Edit({"spec", "roles", role}, *ParseJson(R"({"scaling":{"mode":"External"}})", "role"), seen);
  }
  Edit({"spec", "pools"}, Node::Integer(1), seen);
  const Rollout rollout = DecideRollout(seen, sim_.op().options());
  std::set<std::pair<std::string, std::string>> names;
  for (const auto& [resource, name] : ChildNames("demo")) names.emplace(resource->plural, name);
  std::vector<Child> wanted =
      WantedChildren(seen, sim_.op().options(), rollout.sides, rollout.desired, {{}, kMostPools});
  wanted.push_back(FetchPolicy(rollout.desired.service, sim_.op().options().defaults));
  EXPECT_EQ(wanted.size(), names.size());
  for (const Child& child : wanted) {
    EXPECT_TRUE(names.contains({child.resource->plural, KeyOf(child.object).name}))
        << KeyOf(child.object).name;
  }
}

}  // namespace
}  // namespace janus::control
