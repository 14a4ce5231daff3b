#include "operator/reconcile/pods/nodes.h"

#include <gtest/gtest.h>

#include <vector>

#include "operator/api/json.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

WallTime At(int64_t time) {
  return WallTime(seconds(time));
}

PodSeen PodOn(const std::string& node) {
  PodSeen pod;
  pod.node = node;
  return pod;
}

TEST(ReadNode, TakesWhatDecides) {
  const NodeSeen node = ReadNode(*ParseJson(R"({"metadata": {"name": "a"},
      "spec": {"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "maintenance", "effect": "NoExecute"},
        {"key": "gpu", "effect": "NoSchedule"}]},
      "status": {"conditions": [
        {"type": "MemoryPressure", "status": "Unknown", "lastTransitionTime": "1970-01-01T00:00:01Z"},
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": "1970-01-01T00:01:40Z"}]}})",
                                            "test"));
  EXPECT_EQ(node.name, "a");
  EXPECT_TRUE(node.is_cordoned);
  EXPECT_EQ(node.evicts, "maintenance");
  EXPECT_EQ(node.silent_since, At(100));
}

TEST(ReadNode, OneThatAnswersIsNotSilentWhateverItSays) {
  const NodeSeen node = ReadNode(*ParseJson(R"({"metadata": {"name": "a"}, "spec": {},
      "status": {"conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:01:40Z"}]}})",
                                            "test"));
  EXPECT_FALSE(node.is_cordoned);
  EXPECT_TRUE(node.evicts.empty());
  EXPECT_FALSE(node.silent_since);
}

TEST(JudgeByNodes, APodIsLostAMinuteAfterItsNodeFellSilent) {
  const std::map<std::string, NodeSeen> nodes = {{"a", {.name = "a", .silent_since = At(100)}},
                                                 {"b", {.name = "b", .silent_since = At(90)}},
                                                 {"c", {.name = "c"}}};
  std::vector<PodSeen> pods = {PodOn("a"), PodOn("b"), PodOn("c"), PodOn("")};
  EXPECT_EQ(JudgeByNodes(nodes, At(149), pods), At(150)) << "b is lost next";
  for (const PodSeen& pod : pods) EXPECT_FALSE(pod.is_lost);
  EXPECT_EQ(JudgeByNodes(nodes, At(150), pods), At(160));
  EXPECT_TRUE(pods[1].is_lost);
  EXPECT_FALSE(pods[0].is_lost);
  EXPECT_EQ(JudgeByNodes(nodes, At(160), pods), std::nullopt);
  EXPECT_TRUE(pods[0].is_lost);
  EXPECT_FALSE(pods[2].is_lost || pods[3].is_lost);
}

TEST(JudgeByNodes, APodOfANodeThatIsGoneIsLostAtOnce) {
  std::vector<PodSeen> pods = {PodOn("gone")};
  JudgeByNodes({}, At(0), pods);
  EXPECT_TRUE(pods[0].is_lost);
}

TEST(JudgeByNodes, SaysWhyAPodMustLeaveUnlessSomebodyHasSaidSo) {
  const std::map<std::string, NodeSeen> nodes = {
      {"a", {.name = "a", .is_cordoned = true}},
      {"b", {.name = "b", .is_cordoned = true, .evicts = "maintenance"}}};
  std::vector<PodSeen> pods = {PodOn("a"), PodOn("b"), PodOn("a")};
  pods[2].must_leave = "the pod is to be disrupted";
  EXPECT_EQ(JudgeByNodes(nodes, At(0), pods), std::nullopt);
  EXPECT_EQ(pods[0].must_leave, "node a is cordoned");
  EXPECT_EQ(pods[1].must_leave, "node b has taint maintenance:NoExecute");
  EXPECT_EQ(pods[2].must_leave, "the pod is to be disrupted");
}

}  // namespace
}  // namespace janus::control
