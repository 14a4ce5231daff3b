#include "operator/local/node/deployment.h"

#include <gtest/gtest.h>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"

namespace janus::control {
namespace {

using Names = std::vector<std::string>;

Node Deployment(int replicas, const std::string& image = "gateway:1") {
  return *ParseYaml(
      "{apiVersion: apps/v1, kind: Deployment, metadata: {name: gate, namespace: prod, uid: d-1, "
      "generation: 7}, spec: {replicas: " +
          std::to_string(replicas) +
          ", template: {metadata: {labels: {app: gate}}, spec: {containers: [{name: gateway, "
          "image: '" +
          image + "'}]}}}}",
      "test");
}

// The pods of a new Deployment.
std::vector<Node> PodsOf(const Node& deployment) {
  return PlanDeployment(deployment, {}).create;
}
Node Leaving(Node pod) {
  SetAt(pod, {"metadata", "deletionTimestamp"}, Node::String("2026-11-22T03:04:05Z"));
  return pod;
}
Node Ready(Node pod, const std::string& status = "True") {
  SetAt(pod, {"status", "conditions"},
        *ParseYaml(
            "[{type: ContainersReady, status: 'True'}, {type: Ready, status: '" + status + "'}]",
            "test"));
  return pod;
}
Names NamesOf(std::span<const Node> pods) {
  Names out;
  for (const Node& pod : pods) out.push_back(KeyOf(pod).name);
  return out;
}
int64_t Said(const DeploymentPlan& plan, const char* field) {
  return IntegerAt(plan.deployment, {"status", field}).value_or(-1);
}

TEST(PlanDeployment, MakesPodsOfTheTemplateThatItControls) {
  const Node deployment = Deployment(2);
  const DeploymentPlan plan = PlanDeployment(deployment, {});
  ASSERT_EQ(plan.create.size(), 2u);
  EXPECT_TRUE(plan.remove.empty());
  EXPECT_NE(KeyOf(plan.create[0]).name, KeyOf(plan.create[1]).name);
  for (const Node& pod : plan.create) {
    EXPECT_EQ(TextAt(pod, {"apiVersion"}), "v1");
    EXPECT_EQ(TextAt(pod, {"kind"}), "Pod");
    EXPECT_TRUE(KeyOf(pod).name.starts_with("gate-")) << KeyOf(pod).name;
    EXPECT_EQ(KeyOf(pod).namespace_, "prod");
    EXPECT_EQ(TextAt(pod, {"metadata", "labels", "app"}), "gate");
    EXPECT_TRUE(IsPodOf(deployment, pod));
    EXPECT_EQ(TextAt(FindAt(pod, {"spec", "containers"})->items.at(0), {"image"}), "gateway:1");
  }
  // Pods with another owner, or without one, do not belong to it.
  Node other = deployment;
  SetAt(other, {"metadata", "uid"}, Node::String("d-2"));
  EXPECT_FALSE(IsPodOf(other, plan.create[0]));
  EXPECT_FALSE(IsPodOf(deployment, *ParseYaml("{metadata: {name: gate-1}}", "test")));
}

TEST(PlanDeployment, SaysTheSameOfTheSameWorld) {
  EXPECT_EQ(NamesOf(PodsOf(Deployment(2))), NamesOf(PodsOf(Deployment(2))));
}

TEST(PlanDeployment, LeavesAsManyAsAreAskedForAlone) {
  const std::vector<Node> pods = PodsOf(Deployment(2));
  const DeploymentPlan plan = PlanDeployment(Deployment(2), pods);
  EXPECT_TRUE(plan.create.empty());
  EXPECT_TRUE(plan.remove.empty());
}

TEST(PlanDeployment, OneReplicaIsWhatIsMeantWithoutANumber) {
  Node deployment = Deployment(5);
  SetAt(deployment, {"spec"}, *ParseYaml("{template: {spec: {containers: []}}}", "test"));
  EXPECT_EQ(PlanDeployment(deployment, {}).create.size(), 1u);
}

TEST(PlanDeployment, ScalesDownToWhatIsAskedFor) {
  const std::vector<Node> pods = PodsOf(Deployment(3));
  const DeploymentPlan plan = PlanDeployment(Deployment(1), pods);
  EXPECT_TRUE(plan.create.empty());
  EXPECT_EQ(plan.remove, (Names{KeyOf(pods[1]).name, KeyOf(pods[2]).name}));
  EXPECT_EQ(PlanDeployment(Deployment(0), pods).remove, NamesOf(pods));
}

TEST(PlanDeployment, TakesANameThatIsFreeAgain) {
  const std::vector<Node> pods = PodsOf(Deployment(3));
  const std::vector<Node> left = {pods[0], pods[2]};
  const DeploymentPlan plan = PlanDeployment(Deployment(3), left);
  EXPECT_EQ(NamesOf(plan.create), Names{KeyOf(pods[1]).name});
}

TEST(PlanDeployment, PodsOfAnOldTemplateGoBeforeNewOnesCome) {
  const std::vector<Node> old = PodsOf(Deployment(2));
  const Node changed = Deployment(2, "gateway:2");
  const DeploymentPlan first = PlanDeployment(changed, old);
  EXPECT_EQ(first.remove, NamesOf(old));
  EXPECT_TRUE(first.create.empty());
  EXPECT_EQ(Said(first, "updatedReplicas"), 0);
  // They are being deleted: they are not deleted again, and still hold what new ones need.
  const std::vector<Node> leaving = {Leaving(old[0])};
  const DeploymentPlan second = PlanDeployment(changed, leaving);
  EXPECT_TRUE(second.remove.empty());
  EXPECT_TRUE(second.create.empty());
  const DeploymentPlan third = PlanDeployment(changed, {});
  ASSERT_EQ(third.create.size(), 2u);
  EXPECT_NE(NamesOf(third.create), NamesOf(old));
}

TEST(PlanDeployment, SaysWhatThereIs) {
  std::vector<Node> pods = PodsOf(Deployment(4));
  pods[0] = Ready(pods[0]);
  pods[1] = Ready(pods[1], "False");
  pods[3] = Leaving(Ready(pods[3]));
  const DeploymentPlan plan = PlanDeployment(Deployment(4), pods);
  EXPECT_EQ(Said(plan, "observedGeneration"), 7);
  EXPECT_EQ(Said(plan, "replicas"), 4);
  EXPECT_EQ(Said(plan, "updatedReplicas"), 3);
  EXPECT_EQ(Said(plan, "readyReplicas"), 1);
  EXPECT_EQ(Said(plan, "availableReplicas"), 1);
  EXPECT_EQ(Said(plan, "unavailableReplicas"), 3);
  EXPECT_EQ(*FindAt(plan.deployment, {"spec"}), *FindAt(Deployment(4), {"spec"}));
}

}  // namespace
}  // namespace janus::control
