#include "cli/simulate/service_input.h"

#include <gtest/gtest.h>

#include <fstream>

#include "operator/api/parse.h"
#include "operator/api/yaml.h"

namespace janus::cli {
namespace {

using controllers::ScalingPolicy;

constexpr std::string_view kService = R"(apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {name: chat}
spec:
  model: {source: {type: HostPath, hostPath: {path: /models/v3}}}
  slo:
    tpot: {targetMilliseconds: 60, percentile: P99}
    ttft: {targetMilliseconds: 2000}
  roles:
    attention:
      maxBatchSize: 128
      hardwareProfile: H20
      scaling:
        minReplicas: 2
        maxReplicas: 40
        behavior:
          scaleDown:
            stabilizationWindowSeconds: 600
            policies: [{type: Percent, value: 20, periodSeconds: 60}]
    experts: {instancesPerPod: 4}
  exchange: {compression: FP8, mode: Direct}
  ratio: {max: {experts: 8, attention: 1}}
  scaling: {intervalSeconds: 30, predictor: Seasonal, maxGPUs: 64}
)";

std::string Write(const char* name, std::string_view text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ServiceInput, TakesWhatTheServiceAsks) {
  SimulateOptions options;
  const ScalingPolicy before = options.scaling;
  const Status status = ReadServiceInto(Write("chat.yaml", kService), options);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const ScalingPolicy& scaling = options.scaling;
  EXPECT_EQ(scaling.tpot, (controllers::LatencyTarget{0.06, 0.99}));
  EXPECT_EQ(scaling.ttft, (controllers::LatencyTarget{2, 0.95}));
  EXPECT_EQ(scaling.attention.min, 2);
  EXPECT_EQ(scaling.attention.max, 40);
  EXPECT_EQ(scaling.attention.down.stabilization_seconds, 600);
  ASSERT_EQ(scaling.attention.down.rules.size(), 1u);
  EXPECT_EQ(scaling.attention.down.rules[0],
            (controllers::RateRule{controllers::RateRule::Unit::kPercent, 20, 60}));
  EXPECT_EQ(scaling.attention.up, before.attention.up);
  EXPECT_EQ(scaling.experts.instances_per_pod, 4);
  EXPECT_EQ(scaling.experts.max, before.experts.max);
  EXPECT_EQ(scaling.ratio_max, (controllers::Ratio{8, 1}));
  EXPECT_EQ(scaling.max_gpus, 64);
  EXPECT_EQ(scaling.max_batch_per_attention, 128);
  EXPECT_EQ(scaling.interval_seconds, 30);
  EXPECT_EQ(scaling.forecast.kind, controllers::ForecastKind::kSeasonal);
  EXPECT_EQ(options.setting.model, "/models/v3");
  EXPECT_EQ(options.setting.attention_hardware, "H20");
  EXPECT_EQ(options.setting.expert_hardware, "H100");
  EXPECT_EQ(options.pins.wire, controllers::WireFormat::kFp8);
  EXPECT_EQ(options.pins.mode, ExchangeMode::kDirect);
  EXPECT_EQ(options.pins.sum, std::nullopt);
  EXPECT_EQ(options.exchange.attention_per_node, 1);
  EXPECT_EQ(options.exchange.experts_per_node, 4);
}

TEST(ServiceInput, TakesThePoolsOfTheService) {
  SimulateOptions options;
  const std::string text = std::string(kService) + "  pools: 2\n";
  const Status status = ReadServiceInto(Write("pools.yaml", text), options);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(options.scaling.min_pools, 2);
  EXPECT_EQ(options.scaling.max_pools, 2);
}

TEST(ServiceInput, SaysWhatIsWrong) {
  SimulateOptions options;
  std::string without(kService);
  const size_t at = without.find("    tpot:");
  without.erase(at, without.find('\n', at) - at + 1);
  EXPECT_NE(ReadServiceInto(Write("no_slo.yaml", without), options).message().find("spec.slo.tpot"),
            std::string::npos);
  EXPECT_NE(ReadServiceInto(Write("bad.yaml", "kind: [\n"), options).message().find("bad.yaml"),
            std::string::npos);
  EXPECT_EQ(ReadServiceInto("/none/chat.yaml", options).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace janus::cli
