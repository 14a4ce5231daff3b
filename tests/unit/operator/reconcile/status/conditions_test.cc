#include "operator/reconcile/status/conditions.h"

#include <gtest/gtest.h>

#include <chrono>

#include "operator/api/json.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

WallTime At(int64_t time) {
  return WallTime(seconds(time));
}

TEST(Conditions, ComeBackAsTheyWereWritten) {
  const std::vector<Condition> conditions = {
      {"Ready", ConditionStatus::kFalse, "PodsStarting", "2 of 3 expert pods run", 4, At(100)},
      {"Stalled", ConditionStatus::kUnknown, "Unknown", "", 4, At(200)}};
  const Node object = Object({{"status", Object({{"conditions", WriteConditions(conditions)}})}});
  EXPECT_EQ(ReadConditions(object), conditions);
}

TEST(Conditions, WhatCannotBeReadIsLeftOut) {
  const Node object = *ParseJson(R"({"status": {"conditions": [
      {"type": "Ready", "status": "Perhaps", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"},
      "Ready"]}})",
                                 "test");
  EXPECT_TRUE(ReadConditions(object).empty());
  EXPECT_TRUE(ReadConditions(Node::Map()).empty());
}

TEST(Conditions, TheirTimeMovesWithTheStatusAlone) {
  const std::vector<Condition> before = {
      {"Ready", ConditionStatus::kFalse, "PodsStarting", "", 1, At(100)},
      {"Available", ConditionStatus::kTrue, "Serving", "", 1, At(50)}};
  const std::vector<Condition> after =
      Transitioned(before,
                   {{"Ready", ConditionStatus::kFalse, "TopologyPreparing", "loading", 2, {}},
                    {"Available", ConditionStatus::kFalse, "NoGateway", "", 2, {}},
                    {"Stalled", ConditionStatus::kFalse, "Fine", "", 2, {}}},
                   At(300));
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after[0].last_transition, At(100));
  EXPECT_EQ(after[0].reason, "TopologyPreparing");
  EXPECT_EQ(after[1].last_transition, At(300));
  EXPECT_EQ(after[2].last_transition, At(300));
}

}  // namespace
}  // namespace janus::control
