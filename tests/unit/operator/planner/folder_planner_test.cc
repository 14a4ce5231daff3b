#include "operator/planner/folder_planner.h"

#include <gtest/gtest.h>

#include "common/model/config.h"
#include "tests/support/paths.h"
#include "tests/support/planner/scripted_questions.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

constexpr MachineRoom kRoom{int64_t{64} << 30, 8};

MoEService ServiceAt(const std::string& folder) {
  MoEService service;
  service.metadata.name = "demo";
  service.spec.model.source.type = SourceType::kHostPath;
  service.spec.model.source.host_path = HostPathSource{folder};
  service.spec.roles.attention.replicas = 1;
  service.spec.roles.experts.replicas = 2;
  return service;
}

// Plans from the folder's current content.
Result<PlannedService> Plan(FolderPlanner& planner, const MoEService& service) {
  std::vector<std::string> folders;
  if (service.spec.model.source.host_path) {
    folders.push_back(service.spec.model.source.host_path->path);
  }
  return planner.Know("uid", folders, {})->Plan(service, {});
}

TEST(FolderPlanner, PlansTheModelOfAFolder) {
  FolderPlanner planner(kRoom);
  const MoEService service = ServiceAt(test::SourceDir() + "/examples/demo-model");
  const Result<PlannedService> planned = Plan(planner, service);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_EQ(planned->plan.m, 1);
  EXPECT_EQ(planned->plan.n, 2);
  EXPECT_EQ(planned->plan.slots_per_instance, planned->model.moe.experts * 3 / 4);
  EXPECT_EQ(planned->model_digest, Plan(planner, service)->model_digest);
}

TEST(FolderPlanner, LearnsOfDevicesFromWorkersAndPlansWithout) {
  ScriptedQuestions questions;
  FolderPlanner planner(kRoom, {}, &questions);
  const MoEService service = ServiceAt(test::SourceDir() + "/examples/demo-model");
  const std::string& folder = service.spec.model.source.host_path->path;
  WorkersToAsk workers;
  workers.attention_revision = workers.experts_revision = "r1";
  workers.wake = [] {};
  workers.workers = {{Role::kAttention, "pod a0", "r1", "a0"},
                     {Role::kExperts, "pod e0", "r1", "e0"}};
  const auto plan = [&] { return planner.Know("uid", {folder}, {})->Plan(service, workers); };
  EXPECT_TRUE(planner.Ask("uid", workers));
  ASSERT_TRUE(plan().ok()) << plan().status().ToString();
  EXPECT_FALSE(plan()->devices.attention);
  EXPECT_EQ(plan()->awaited, "");
  ModelReport report;
  report.config_json = "{}";  // another model changes nothing: the folder is read here
  report.device.cpu = CpuSpeed{2, {1e9, 2e9}, {3e9, 4e9}};
  for (ScriptedQuestions::Asked& one : questions.asked) one.result = report;
  planner.Ask("uid", workers);
  ASSERT_TRUE(plan().ok());
  EXPECT_EQ(plan()->devices.attention, report.device);
  EXPECT_EQ(plan()->devices.experts, report.device);
  planner.Forget("uid");
  EXPECT_FALSE(plan()->devices.attention);
  FolderPlanner alone(kRoom);
  EXPECT_FALSE(alone.Ask("uid", workers));
}

TEST(FolderPlanner, OtherWeightsHaveAnotherDigest) {
  const TempFolder folder;
  std::filesystem::copy(test::SourceDir() + "/examples/demo-model/config.json", folder.path());
  folder.Write("model.safetensors", "1");
  FolderPlanner planner(kRoom);
  const std::string before = Plan(planner, ServiceAt(folder.path()))->model_digest;
  folder.Write("model.safetensors", "22");
  const std::string longer = Plan(planner, ServiceAt(folder.path()))->model_digest;
  EXPECT_NE(longer, before);
  folder.Write("model.safetensors", "23");
  EXPECT_NE(Plan(planner, ServiceAt(folder.path()))->model_digest, longer)
      << "as long as those before, as of a training that went on";
}

TEST(FolderPlanner, WhatItCannotKnowIsNotKnownYet) {
  FolderPlanner planner(kRoom);
  MoEService service = ServiceAt("/nowhere");
  EXPECT_EQ(Plan(planner, service).status(),
            NotFound("spec.model.source.hostPath.path: " +
                     ReadModelConfig("/nowhere").status().message()));
  service.spec.model.source.type = SourceType::kImage;
  service.spec.model.source.host_path.reset();
  EXPECT_EQ(Plan(planner, service).status(),
            Unavailable("the model of a source Image is not known here: this operator reads models "
                        "of HostPath only"));
}

}  // namespace
}  // namespace janus::control
