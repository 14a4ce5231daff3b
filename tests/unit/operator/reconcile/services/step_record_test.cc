// How steps of a service go is recorded for people, whether decisions are made for it or not.

#include <gtest/gtest.h>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/records/service_page.h"
#include "operator/records/step_page.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

TEST(StepRecord, IsTheNewestStepThatMembersToldOf) {
  RecordBook book;
  SimulatedService sim;
  sim.options.records = &book;
  sim.RestartOperator();
  const auto answer = [&](const std::string& path) {
    return AnswerRecords(book, path, sim.timeline.WallNow());
  };
  const auto tell = [&](uint64_t step) {
    sim.workers.traces = {{Role::kAttention, Rank{0}, 1, step, 1, 5, {{StepWork::kSend, 0, 0, 9}}}};
  };
  const Result<Node> object = ParseYaml(
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
      "metadata: {name: demo, namespace: default}\nspec:\n"
      "  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}\n"
      "  roles: {attention: {replicas: 1}, experts: {replicas: 1}}\n",
      "demo.yaml");
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  ASSERT_TRUE(sim.user.Apply(kMoEServices, *object, Subresource::kNone, {}, {}).ok());
  sim.RunUntil("Ready");
  sim.Run(Seconds(10));
  EXPECT_EQ(answer("/v1/steps").body, R"({"services":[]})") << "no member has kept a step";
  EXPECT_EQ(answer("/v1/steps/default/demo").status, 404);
  tell(16);
  sim.Run(Seconds(10));
  EXPECT_EQ(answer("/v1/steps").body, R"({"services":[{"namespace":"default","name":"demo"}]})");
  tell(32);
  sim.Run(Seconds(10));
  const RecordsAnswer told = answer("/v1/steps/default/demo");
  EXPECT_EQ(told.status, 200);
  const janus::Result<StepPage> page = ParseStepJson(told.body);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->instances.size(), 1U);
  EXPECT_EQ(page->instances[0].step, 32U);
  EXPECT_LE(page->age_seconds, 10);
  // No load any more: members tell of the same step again, and it becomes older.
  sim.Run(Seconds(100));
  EXPECT_GT(ParseStepJson(answer("/v1/steps/default/demo").body)->age_seconds, 80);
  EXPECT_EQ(answer("/v1/steps/default/demo/pools/1").status, 200);
  for (const char* pool : {"2", "0", "x", "1x", ""}) {
    EXPECT_EQ(answer(std::string("/v1/steps/default/demo/pools/") + pool).status, 404) << pool;
  }
  EXPECT_EQ(answer("/v1/steps/default/other").status, 404);
  EXPECT_EQ(answer("/v1/steps/default/demo/worlds").status, 404);
  EXPECT_EQ(answer("/v1/services").body, R"({"services":[]})") << "nothing was decided";

  ASSERT_TRUE(sim.user.Delete(kMoEServices, {"default", "demo"}, {}, {}).ok());
  sim.Run(Seconds(60));
  EXPECT_EQ(answer("/v1/steps").body, R"({"services":[]})");
}

TEST(StepRecord, IsKeptOfEachPool) {
  RecordBook book;
  SimulatedService sim;
  sim.options.records = &book;
  sim.RestartOperator();
  sim.Apply(1, 1, "  pools: 2\n");
  sim.RunUntil("Ready");
  sim.workers.traces = {{Role::kAttention, Rank{0}, 1, 16, 1, 5, {{StepWork::kSend, 0, 0, 9}}}};
  sim.Run(Seconds(10));
  const auto page = [&](const std::string& more) {
    return *ParseStepJson(
        AnswerRecords(book, "/v1/steps/default/demo" + more, sim.timeline.WallNow()).body);
  };
  EXPECT_EQ(page("").pool, 1);
  EXPECT_EQ(page("").pools, (std::vector<int>{1, 2}));
  EXPECT_EQ(page("/pools/2").pool, 2);
}

}  // namespace
}  // namespace janus::control
