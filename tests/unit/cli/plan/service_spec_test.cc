#include "cli/plan/service_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace janus::cli {
namespace {

constexpr std::string_view kService = R"(apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {name: chat}
spec:
  model: {source: {type: HostPath, hostPath: {path: /models/v2}}}
  slo:
    tpot: {targetMilliseconds: 60, percentile: P99}
    ttft: {targetMilliseconds: 1500, percentile: P90}
  roles:
    attention:
      maxBatchSize: 128
      kvCache: {dtype: FP8}
      hardwareProfile: H20
      scaling: {maxReplicas: 40}
    experts:
      instancesPerPod: 4
      tensorParallel: 2
      hardwareProfile: L40S
      slotsPerInstance: 24
      spareSlots: 3
      placement: {survivable: true}
      scaling: {maxReplicas: 30}
  scaling: {maxGPUs: 96}
)";

class ServiceSpec : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("spec_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const char* name, std::string_view text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  control::MoEServiceSpec Read(const std::string& text) {
    const auto spec = ReadServiceSpec(Write("chat.yaml", text));
    EXPECT_TRUE(spec.ok()) << spec.status().ToString();
    return *spec;
  }

  std::filesystem::path folder_;
};

TEST_F(ServiceSpec, APlanTakesWhatTheServiceAsks) {
  PlanOptions options;
  FillPlan(Read(std::string(kService)), options);
  EXPECT_EQ(options.setting.model, "/models/v2");
  EXPECT_EQ(options.setting.attention_hardware, "H20");
  EXPECT_EQ(options.setting.expert_hardware, "L40S");
  EXPECT_TRUE(options.setting.fp8_kv_cache);
  EXPECT_EQ(options.tpot_milliseconds, 60);
  EXPECT_EQ(options.ttft_seconds, 1.5);
  EXPECT_EQ(options.ttft_percentile, 0.9);
  EXPECT_EQ(options.max_batch_per_attention, 128);
  EXPECT_EQ(options.instances_per_pod, 4);
  EXPECT_TRUE(options.survivable);
  EXPECT_EQ(options.max_attention_gpus, 40);
  EXPECT_EQ(options.max_expert_gpus, 60) << "30 instances of two";
  EXPECT_EQ(options.max_gpus, 96);
  EXPECT_EQ(options.exchange.attention_per_node, 1) << "a pod";
  EXPECT_EQ(options.exchange.experts_per_node, 4);
  std::string shared(kService);
  shared += "  exchange: {hostShared: true, gate: Attention}\n";
  PlanOptions of_machines;
  FillPlan(Read(shared), of_machines);
  EXPECT_EQ(of_machines.exchange.experts_per_node, 0) << "as many as a machine has GPUs for";
  EXPECT_EQ(of_machines.pins.gate, GateSide::kAttention);
}

TEST_F(ServiceSpec, WhatItLeavesOpenStaysAsItWas) {
  const std::string begin =
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: chat}\nspec:\n"
      "  model: {source: {type: HostPath, hostPath: {path: /m}}}\n";
  const std::string fixed = begin + "  roles: {attention: {replicas: 1}, experts: {replicas: 2}}\n";
  const std::string free = begin + "  slo: {tpot: {targetMilliseconds: 50}}\n";
  PlanOptions options;
  options.tpot_milliseconds = 70;
  options.setting.attention_hardware = "A800";
  FillPlan(Read(fixed), options);
  EXPECT_EQ(options.tpot_milliseconds, 70);
  EXPECT_EQ(options.ttft_seconds, 0);
  EXPECT_EQ(options.setting.attention_hardware, "A800");
  EXPECT_EQ(options.max_attention_gpus, PlanOptions().max_attention_gpus);
  EXPECT_EQ(options.max_gpus, 0);
  PlaceOptions place;
  place.instances = 5;
  place.batch = 7;
  FillPlace(Read(free), place);
  EXPECT_EQ(place.instances, 5);
  EXPECT_EQ(place.batch, 7);
}

TEST_F(ServiceSpec, APlacementTakesWhatTheServiceAsks) {
  PlaceOptions options;
  FillPlace(Read(std::string(kService)), options);
  EXPECT_EQ(options.model, "/models/v2");
  EXPECT_EQ(options.slots_per_instance, 27);
  EXPECT_EQ(options.spare_slots, 3);
  EXPECT_EQ(options.instances_per_pod, 4);
  EXPECT_TRUE(options.survivable);
  EXPECT_EQ(options.instances, PlaceOptions().instances) << "they are not fixed";
  std::string fixed(kService);
  fixed.replace(fixed.find("scaling: {maxReplicas: 40}"), 26, "replicas: 3");
  fixed.replace(fixed.find("scaling: {maxReplicas: 30}"), 26, "replicas: 12");
  FillPlace(Read(fixed), options);
  EXPECT_EQ(options.instances, 12);
  EXPECT_EQ(options.batch, 3 * 128);
}

// The first-token target is judged if the traffic is known. If not, the output says that it is
// open.
TEST_F(ServiceSpec, AFirstTokenWithoutTrafficIsNotJudgedAndSaysSo) {
  PlanOptions options;
  FillPlan(Read(std::string(kService)), options);
  options.setting.model = "deepseek-v2";
  options.setting.attention_hardware = options.setting.expert_hardware = "H100";
  const Result<std::string> text = Plan(options);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->find("the target for the first token (1.5 s at p90) was not checked"),
            std::string::npos)
      << *text;
  options.json = true;
  const auto open = nlohmann::json::parse(*Plan(options));
  EXPECT_EQ(open.at("goal").at("ttftJudged"), false);
  options.traffic = {2, 1000, 200};
  const auto judged = nlohmann::json::parse(*Plan(options));
  EXPECT_EQ(judged.at("goal").at("ttftJudged"), true);
  EXPECT_LE(judged.at("plans").at(0).at("firstToken").at("seconds").get<double>(), 1.5);
}

TEST_F(ServiceSpec, SaysWhatIsWrong) {
  EXPECT_EQ(ReadServiceSpec("/none/chat.yaml").status().code(), StatusCode::kNotFound);
  EXPECT_NE(ReadServiceSpec(Write("bad.yaml", "kind: [\n")).status().message().find("bad.yaml"),
            std::string::npos);
  std::string odd(kService);
  odd.replace(odd.find("maxBatchSize: 128"), 17, "maxBatchSize: -1 ");
  EXPECT_NE(ReadServiceSpec(Write("odd.yaml", odd)).status().message().find("maxBatchSize"),
            std::string::npos);
}

// The routing must belong to the model.
TEST_F(ServiceSpec, APlacementOfAnotherModelsRoutingIsRefused) {
  PlaceOptions options;
  options.model = "mixtral-8x22b";
  options.instances = 2;
  options.routing = Write("three.csv", "layer0\n0 1 2\n3 4 5\n6 7 0\n1 2 3\n");
  EXPECT_NE(Place(options).status().message().find(
                "routes to 3 of 8 experts, but mixtral-8x22b routes to 2"),
            std::string::npos)
      << Place(options).status().message();
  options.routing = Write("two.csv", "layer0\n0 1\n3 4\n6 7\n1 2\n");
  EXPECT_TRUE(Place(options).ok()) << Place(options).status().message();
  options.routing = Write("nine.csv", "layer0\n0 1\n3 8\n6 7\n1 2\n");
  EXPECT_NE(Place(options).status().message().find("chose expert 8 of 8"), std::string::npos);
}

}  // namespace
}  // namespace janus::cli
