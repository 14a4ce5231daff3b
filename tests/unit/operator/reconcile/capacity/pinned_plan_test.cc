#include "operator/reconcile/capacity/pinned_plan.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

MoEService Fixed(int attention, int experts) {
  MoEService service;
  service.metadata.name = "demo";
  service.spec.roles.attention.replicas = attention;
  service.spec.roles.experts.replicas = experts;
  return service;
}

auto By(const ScriptedPlanner& planner) {
  return [&planner](const MoEService& service) { return planner.Plan(service); };
}

TEST(PlanPinned, WithoutAnybodyThatHoldsSomethingIsThePlanners) {
  ScriptedPlanner planner;
  planner.room.memory_bytes = 300 * kMiB;
  const auto plan = PlanPinned(By(planner), Fixed(1, 2), std::nullopt);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->plan.kv_bytes, planner.Plan(Fixed(1, 2))->plan.kv_bytes);
}

TEST(PlanPinned, GivesWhatIsHeld) {
  ScriptedPlanner planner;
  planner.room.memory_bytes = 800 * kMiB;
  const SequenceRoom held{.kv_bytes = 40 * kMiB, .swap_bytes = 6 * kMiB};
  const auto plan = PlanPinned(By(planner), Fixed(2, 4), held);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->plan.kv_bytes, held.kv_bytes);
  EXPECT_EQ(plan->plan.swap_bytes, held.swap_bytes);
}

TEST(PlanPinned, ASizeOfTheSpecGoesBefore) {
  ScriptedPlanner planner;
  MoEService service = Fixed(1, 2);
  service.spec.roles.attention.kv_cache.size = *ParseQuantity("64Mi");
  const auto plan =
      PlanPinned(By(planner), service, SequenceRoom{.kv_bytes = 40 * kMiB, .swap_bytes = 6 * kMiB});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->plan.kv_bytes, 64 * kMiB);
}

TEST(PlanPinned, WhatHasNoRoomIsSaidInFigures) {
  ScriptedPlanner planner;
  planner.room.memory_bytes = 300 * kMiB;
  EXPECT_TRUE(planner.Plan(Fixed(4, 4)).ok()) << "it could begin with less for each";
  const SequenceRoom held{.kv_bytes = 60 * kMiB, .swap_bytes = kMiB};
  const Status status = PlanPinned(By(planner), Fixed(4, 4), held).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* const part : {"service demo needs 5", " MB, 315 MB free: ", "4 x 71 MB KV cache",
                                 "each attention instance that serves has 63 MB of KV cache"}) {
    EXPECT_TRUE(Contains(status.message(), part)) << part << ": " << status.message();
  }
}

}  // namespace
}  // namespace janus::control
