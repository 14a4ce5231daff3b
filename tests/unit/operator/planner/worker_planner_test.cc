#include "operator/planner/worker_planner.h"

#include <gtest/gtest.h>

#include "common/model/config.h"
#include "tests/support/contains.h"
#include "tests/support/paths.h"
#include "tests/support/planner/scripted_questions.h"

namespace janus::control {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr const char* kUid = "uid-1";

std::string DemoConfig() {
  return *ReadModelConfig(test::SourceDir() + "/examples/demo-model");
}

class WorkerPlannerTest : public testing::Test {
 protected:
  WorkerPlannerTest() {
    service_.metadata.name = "demo";
    service_.metadata.uid = kUid;
    service_.spec.model.source.type = SourceType::kImage;
    service_.spec.roles.attention.replicas = 1;
    service_.spec.roles.experts.replicas = 2;
    workers_.attention_revision = workers_.experts_revision = "r1";
    workers_.wake = [this] { ++wakes_; };
  }
  void Add(Role role, const std::string& address, const std::string& revision = "r1") {
    workers_.workers.push_back({role, "pod " + address, revision, address});
  }
  void Look() { planner_.Ask(kUid, workers_); }
  Result<PlannedService> Plan() {
    return planner_.Know(kUid, {}, workers_.now)->Plan(service_, workers_);
  }
  static ModelReport Report(int64_t memory_bytes = 4 * kGiB, const std::string& digest = "d1") {
    return {DemoConfig(), digest, "t", {memory_bytes, true, 2, true}};
  }
  // Both roles have answered for r1.
  void Know() {
    Add(Role::kAttention, "a0");
    Look();
    questions_.Answer(Report());
    Look();
    Add(Role::kExperts, "e0");
    Look();
    questions_.Answer(Report());
    Look();
    ASSERT_TRUE(Plan().ok());
    ASSERT_EQ(Plan()->awaited, "");
  }

  ScriptedQuestions questions_;
  WorkerPlanner planner_{questions_};
  MoEService service_;
  WorkersToAsk workers_;
  int wakes_ = 0;
};

TEST_F(WorkerPlannerTest, KnowsNothingBeforeAWorkerHasSaidIt) {
  Look();
  EXPECT_EQ(Plan().status(),
            Unavailable("the needs of the model are not known yet: waiting for the "
                        "first worker to start and report the model"));
  Add(Role::kAttention, "a0");
  Look();
  EXPECT_EQ(questions_.last(), "a0");
  EXPECT_EQ(questions_.asked.back().uid, kUid);
  EXPECT_EQ(Plan().status(), Unavailable("the needs of the model are not known yet: waiting for "
                                         "pod a0 to report its model and memory"));
  questions_.Answer(Report());
  EXPECT_EQ(wakes_, 1);
  Look();
  const auto planned = Plan();
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_EQ(planned->model_digest, "d1");
  EXPECT_EQ(planned->plan.n, 2);
  EXPECT_EQ(planned->awaited, "") << "of experts there is nobody to ask";
}

TEST_F(WorkerPlannerTest, AsksOneOfEachRoleOnce) {
  Add(Role::kAttention, "a0");
  Add(Role::kAttention, "a1");
  Add(Role::kExperts, "e0");
  Add(Role::kExperts, "e1");
  Look();
  Look();
  ASSERT_EQ(questions_.asked.size(), 2u);
  EXPECT_EQ(questions_.asked[0].address, "a0");
  EXPECT_EQ(questions_.asked[1].address, "e0");
  questions_.asked[0].result = Report();
  Look();
  ASSERT_TRUE(Plan().ok());
  EXPECT_EQ(Plan()->awaited,
            "the memory for the model is not known yet: waiting for pod e0 to report its model and "
            "memory");
  questions_.Answer(Report());
  for (int pass = 0; pass < 3; ++pass) Look();
  EXPECT_EQ(Plan()->awaited, "");
  EXPECT_EQ(questions_.asked.size(), 2u);
}

TEST_F(WorkerPlannerTest, TellsOfTheDevicesOfBothRoles) {
  Add(Role::kAttention, "a0");
  Add(Role::kExperts, "e0");
  Look();
  ModelReport report = Report();
  report.device.name = "NVIDIA H20";
  questions_.asked[0].result = report;
  Look();
  EXPECT_EQ(Plan()->devices.attention, report.device);
  EXPECT_FALSE(Plan()->devices.experts);
  report.device.name = "NVIDIA L40S";
  questions_.Answer(report);
  Look();
  EXPECT_EQ(Plan()->devices.attention->name, "NVIDIA H20");
  EXPECT_EQ(Plan()->devices.experts->name, "NVIDIA L40S");
}

// What pods of an older spec have says nothing of how many new ones it takes.
TEST_F(WorkerPlannerTest, OldPodsAreNotCountedUponForTheNumberOfNewOnes) {
  service_.spec.roles.experts.replicas.reset();
  service_.spec.slo.tpot = LatencyTarget{100};
  Add(Role::kAttention, "a0");
  Add(Role::kExperts, "e0");
  Look();
  questions_.asked[0].result = Report();
  Look();
  const Result<PlannedService> alone = Plan();
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  EXPECT_EQ(alone->plan.n, 1);
  // Not quite enough for all experts.
  questions_.Answer(Report(alone->plan.need.expert_pod().total() - (1 << 20)));
  Look();
  ASSERT_TRUE(Plan().ok()) << Plan().status().ToString();
  EXPECT_EQ(Plan()->plan.n, 2);
  workers_.attention_revision = workers_.experts_revision = "r2";
  ASSERT_TRUE(Plan().ok()) << Plan().status().ToString();
  EXPECT_EQ(Plan()->plan.n, 1);
}

TEST_F(WorkerPlannerTest, PlansWithinTheRoomsThatWorkersHave) {
  Know();
  const int64_t kv = Plan()->plan.kv_bytes;
  workers_.attention_revision = "r2";
  Add(Role::kAttention, "a9", "r2");
  Look();
  EXPECT_EQ(questions_.last(), "a9");
  questions_.Answer(Report(200 << 20));
  Look();
  EXPECT_LT(Plan()->plan.kv_bytes, kv);
  service_.spec.roles.attention.kv_cache.size = *ParseQuantity("1Gi");
  EXPECT_EQ(Plan().status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(Plan().status().message(), "each attention pod of service demo needs "));
}

TEST_F(WorkerPlannerTest, WhoDoesNotAnswerIsNamedAndAnotherIsAsked) {
  Add(Role::kAttention, "a0");
  Add(Role::kAttention, "a1");
  Look();
  questions_.Answer(Unavailable("cannot connect"));
  EXPECT_EQ(wakes_, 1);
  Look();
  EXPECT_EQ(questions_.last(), "a1");
  EXPECT_EQ(Plan().status(),
            Unavailable("the needs of the model are not known yet: pod a0: cannot connect"));
  questions_.Answer(NotFound("/models/x: no such folder"));
  Look();
  Look();
  EXPECT_EQ(questions_.asked.size(), 2u) << "both have a pause";
  EXPECT_EQ(Plan().status(), NotFound("pod a1: /models/x: no such folder"));
  workers_.now += std::chrono::seconds(2);
  Look();
  EXPECT_EQ(questions_.last(), "a0");
  EXPECT_EQ(questions_.asked.size(), 3u);
}

TEST_F(WorkerPlannerTest, WhoHasGoneIsNotWaitedFor) {
  Add(Role::kAttention, "a0");
  Look();
  workers_.workers.clear();
  Add(Role::kAttention, "a1");
  Look();
  EXPECT_TRUE(questions_.asked[0].is_cancelled);
  EXPECT_EQ(questions_.last(), "a1");
}

TEST_F(WorkerPlannerTest, OlderWordsCarryWhatServesUntilNewOnesCome) {
  Know();
  workers_.attention_revision = workers_.experts_revision = "r2";
  Look();
  ASSERT_TRUE(Plan().ok());
  EXPECT_EQ(Plan()->awaited, "") << "of r2 there is nobody yet";
  // Pods of both revisions exist: the new one is asked.
  Add(Role::kExperts, "e1", "r2");
  Look();
  EXPECT_EQ(questions_.last(), "e1");
  EXPECT_EQ(Plan()->awaited,
            "the memory for the model is not known yet: waiting for pod e1 to report its model and "
            "memory");
  questions_.Answer(Report(4 * kGiB, "d2"));
  Look();
  EXPECT_EQ(Plan()->model_digest, "d2");
  // Back to r1: no worker needs to be asked.
  workers_.attention_revision = workers_.experts_revision = "r1";
  Look();
  EXPECT_EQ(Plan()->model_digest, "d1");
  EXPECT_EQ(Plan()->awaited, "");
  EXPECT_EQ(questions_.last(), "e1");
}

TEST_F(WorkerPlannerTest, WhatOnlyOlderWorkersMakeImpossibleWaitsForNewOnes) {
  Know();
  // The old rooms are too small, but those of the wanted pods may differ.
  service_.spec.roles.attention.kv_cache.size = *ParseQuantity("8Gi");
  ASSERT_EQ(Plan().status().code(), StatusCode::kResourceExhausted);
  workers_.attention_revision = "r2";
  Look();
  EXPECT_TRUE(Plan().ok()) << Plan().status().ToString();
  // The same for their model.
  service_.spec.model.max_model_len = 1 << 30;
  ASSERT_EQ(Plan().status().code(), StatusCode::kInvalidArgument);
  workers_.experts_revision = "r2";
  Look();
  EXPECT_EQ(Plan().status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(Plan().status().message(),
                       "waiting for a worker of the newest revision; older ones report: "
                       "spec.model.maxModelLen"));
}

TEST_F(WorkerPlannerTest, AModelThatCannotBeServedIsRefusedWithItsField) {
  Add(Role::kAttention, "a0");
  Look();
  questions_.Answer(ModelReport{"{\"architectures\": [\"GPT2\"]}", "d1", "t", Report().room});
  Look();
  EXPECT_EQ(Plan().status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(Plan().status().message(), "the model's config.json, as pod a0 has it: "));
}

TEST_F(WorkerPlannerTest, ForgetsAServiceThatHasGone) {
  Add(Role::kAttention, "a0");
  Look();
  planner_.Forget(kUid);
  EXPECT_TRUE(questions_.asked[0].is_cancelled);
  EXPECT_EQ(Plan().status().code(), StatusCode::kUnavailable);
  planner_.Forget("another");
}

}  // namespace
}  // namespace janus::control
