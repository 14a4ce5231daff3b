#include "operator/scaling/policy_of.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "operator/api/parse.h"
#include "operator/api/yaml.h"

namespace janus::control {
namespace {

using controllers::RateRule;
using controllers::ScalingPolicy;
using controllers::SelectRule;

// A spec with these lines below `spec`.
MoEServiceSpec SpecWith(std::string_view lines) {
  const std::string text =
      "apiVersion: serving.janus.dev/v1alpha1\n"
      "kind: MoEService\n"
      "metadata: {name: chat}\n"
      "spec:\n"
      "  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}\n" +
      std::string(lines);
  const Result<Node> root = ParseYaml(text, "test");
  EXPECT_TRUE(root.ok()) << root.status().ToString();
  const ParsedService parsed = ParseMoEService(*root);
  EXPECT_TRUE(parsed.errors.empty()) << (parsed.errors.empty() ? "" : parsed.errors[0].message);
  return parsed.object.spec;
}

ScalingPolicy Policy(std::string_view lines, const PolicyLimits& limits = {}) {
  const Result<ScalingPolicy> policy = PolicyOf(SpecWith(lines), limits);
  EXPECT_TRUE(policy.ok()) << policy.status().ToString();
  return policy.ok() ? *policy : ScalingPolicy{};
}

Status Refusal(std::string_view lines, const PolicyLimits& limits = {}) {
  return PolicyOf(SpecWith(lines), limits).status();
}

constexpr std::string_view kTarget = "  slo: {tpot: {targetMilliseconds: 60}}\n";

TEST(PolicyOf, TakesTheDefaultsOfTheApi) {
  const ScalingPolicy policy = Policy(kTarget);
  ScalingPolicy expected;
  expected.tpot = {0.06, 0.95};
  expected.attention.max = 256;
  expected.experts.max = 1024;
  EXPECT_EQ(policy, expected);
  EXPECT_FALSE(policy.ttft);
  EXPECT_EQ(policy.attention.min, 1);
  EXPECT_EQ(policy.max_pools, 1);
  EXPECT_EQ(policy.max_gpus, 0);
  EXPECT_EQ(policy.max_batch_per_attention, 256);
  EXPECT_EQ(policy.interval_seconds, 15);
  EXPECT_EQ(policy.pending_timeout_seconds, 1200);
}

TEST(PolicyOf, TakesTheNumbersOfPools) {
  const ScalingPolicy policy =
      Policy(std::string(kTarget) + "  pools: 2\n  scaling: {maxPools: 4}\n");
  EXPECT_EQ(policy.min_pools, 2);
  EXPECT_EQ(policy.max_pools, 4);
  EXPECT_EQ(policy.attention.max, 4 * 256) << "of all pools";
  const ScalingPolicy fixed =
      Policy(std::string(kTarget) + "  pools: 3\n  roles: {experts: {replicas: 2}}\n");
  EXPECT_EQ(fixed.min_pools, 3);
  EXPECT_EQ(fixed.max_pools, 3);
  EXPECT_EQ(fixed.experts.min, 6) << "each pool has two";
  EXPECT_EQ(fixed.experts.max, 6);
}

TEST(PolicyOf, TakesTheTargetsWithTheirPercentiles) {
  const ScalingPolicy policy = Policy(
      "  slo:\n"
      "    tpot: {targetMilliseconds: 45, percentile: P99}\n"
      "    ttft: {targetMilliseconds: 2000, percentile: P50}\n");
  EXPECT_EQ(policy.tpot, (controllers::LatencyTarget{0.045, 0.99}));
  EXPECT_EQ(policy.ttft, (controllers::LatencyTarget{2, 0.5}));
  EXPECT_EQ(Policy("  slo: {tpot: {targetMilliseconds: 45, percentile: P90}}\n").tpot.percentile,
            0.9);
}

TEST(PolicyOf, TimesThatNoFieldSetsAreOnTheClockOfTimedDevices) {
  const ScalingPolicy real = Policy(kTarget);
  const ScalingPolicy fast =
      Policy(std::string(kTarget) +
             "  device: Timed\n  timed: {hardware: H200, model: deepseek-v3, timeScale: 8}\n");
  EXPECT_EQ(fast.warm_up_seconds, real.warm_up_seconds / 8);
  EXPECT_EQ(fast.start_seconds, real.start_seconds / 8);
  EXPECT_EQ(fast.recovery_seconds, real.recovery_seconds / 8);
  EXPECT_EQ(fast.backoff_seconds, real.backoff_seconds / 8);
  EXPECT_EQ(fast.online.half_life_seconds, real.online.half_life_seconds / 8);
  EXPECT_EQ(fast.interval_seconds, real.interval_seconds);
  EXPECT_EQ(fast.attention.down, real.attention.down);
}

TEST(PolicyOf, NeedsATpotTarget) {
  const Status refusal = Refusal("  slo: {ttft: {targetMilliseconds: 500}}\n");
  EXPECT_EQ(refusal.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(refusal.message().starts_with("spec.slo.tpot")) << refusal.message();
}

TEST(PolicyOf, TakesTheBoundsAndBehaviorsOfBothRoles) {
  for (const std::string role : {"attention", "experts"}) {
    SCOPED_TRACE(role);
    const ScalingPolicy policy =
        Policy(std::string(kTarget) + "  roles:\n    " + role +
               ":\n"
               "      instancesPerPod: 2\n"
               "      scaling:\n"
               "        minReplicas: 4\n"
               "        maxReplicas: 40\n"
               "        behavior:\n"
               "          scaleUp:\n"
               "            stabilizationWindowSeconds: 30\n"
               "            selectPolicy: Min\n"
               "            policies:\n"
               "            - {type: Pods, value: 3, periodSeconds: 20}\n"
               "            - {type: Percent, value: 50, periodSeconds: 60}\n"
               "          scaleDown: {selectPolicy: Disabled}\n");
    const bool is_attention = role == "attention";
    const controllers::RolePolicy& of = is_attention ? policy.attention : policy.experts;
    EXPECT_EQ(of.min, 4);
    EXPECT_EQ(of.max, 40);
    EXPECT_EQ(of.instances_per_pod, 2);
    EXPECT_EQ(of.up.stabilization_seconds, 30);
    EXPECT_EQ(of.up.select, SelectRule::kMin);
    EXPECT_EQ(of.up.rules, (std::vector<RateRule>{{RateRule::Unit::kPods, 3, 20},
                                                  {RateRule::Unit::kPercent, 50, 60}}));
    controllers::Behavior down = controllers::DefaultScaleDown();
    down.select = SelectRule::kDisabled;
    EXPECT_EQ(of.down, down);
    const controllers::RolePolicy& other = is_attention ? policy.experts : policy.attention;
    EXPECT_EQ(other.min, 1);
    EXPECT_EQ(other.up, controllers::DefaultScaleUp());
  }
}

TEST(PolicyOf, ARoleWithReplicasIsConstant) {
  const ScalingPolicy policy =
      Policy(std::string(kTarget) +
             "  roles: {attention: {replicas: 3, instancesPerPod: 2}, experts: {}}\n");
  EXPECT_EQ(policy.attention.min, 3);
  EXPECT_EQ(policy.attention.max, 3);
  EXPECT_EQ(policy.experts.min, 1);
  EXPECT_EQ(policy.experts.max, 1024);
}

TEST(PolicyOf, AnExternalRoleHasTheCountOfItsScaler) {
  const std::string lines =
      std::string(kTarget) +
      "  roles: {experts: {instancesPerPod: 4, scaling: {mode: External, minReplicas: 2}}}\n";
  const ScalingPolicy policy = Policy(lines, {.external_experts = 5});
  EXPECT_EQ(policy.experts.min, 20);
  EXPECT_EQ(policy.experts.max, 20);
  EXPECT_EQ(policy.attention.max, 256);
  const Status unknown = Refusal(lines, {.external_attention = 5});
  EXPECT_EQ(unknown.code(), StatusCode::kUnavailable);
  EXPECT_NE(unknown.message().find("spec.roles.experts"), std::string::npos) << unknown.message();
}

TEST(PolicyOf, AServiceWithoutInstancesIsNotScaled) {
  const Status refusal = Refusal(std::string(kTarget) +
                                 "  roles: {attention: {replicas: 0}, experts: {replicas: 0}}\n");
  EXPECT_EQ(refusal.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refusal.message().find("spec.roles.attention.replicas"), std::string::npos);
}

TEST(PolicyOf, TakesRatioBatchAndTheWayToDecide) {
  const ScalingPolicy policy =
      Policy(std::string(kTarget) +
             "  roles: {attention: {maxBatchSize: 96}}\n"
             "  ratio: {min: {experts: 1, attention: 2}, max: {experts: 8, attention: 1}}\n"
             "  scaling: {intervalSeconds: 3, predictor: EWMA, maxGPUs: 64, advisory: true, "
             "pendingTimeoutSeconds: 90}\n");
  EXPECT_EQ(policy.ratio_min, (controllers::Ratio{1, 2}));
  EXPECT_EQ(policy.ratio_max, (controllers::Ratio{8, 1}));
  EXPECT_EQ(policy.max_batch_per_attention, 96);
  EXPECT_EQ(policy.interval_seconds, 3);
  EXPECT_EQ(policy.forecast.kind, controllers::ForecastKind::kEwma);
  EXPECT_EQ(policy.max_gpus, 64);
  EXPECT_TRUE(policy.is_advisory);
  EXPECT_EQ(policy.pending_timeout_seconds, 90);
  const std::string seasonal = std::string(kTarget) + "  scaling: {predictor: Seasonal}\n";
  EXPECT_EQ(Policy(seasonal).forecast.kind, controllers::ForecastKind::kSeasonal);
}

TEST(PolicyOf, StandbyPodsCountAgainstTheMostGpus) {
  const auto with = [](const char* scaling) {
    return std::string(kTarget) +
           "  roles: {experts: {instancesPerPod: 2}}\n  scaling: " + scaling + "\n";
  };
  EXPECT_EQ(Policy(with("{maxGPUs: 13, standby: 3}")).max_gpus, 4);
  EXPECT_EQ(Policy(with("{standby: 3}")).max_gpus, 0);
  const Status refusal = Refusal(with("{maxGPUs: 10, standby: 3}"));
  EXPECT_EQ(refusal.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refusal.message().find("spec.scaling.standby"), std::string::npos);
}

TEST(PolicyOf, AMachineHasNoRoomForMoreInstancesThanItSays) {
  EXPECT_EQ(Policy(kTarget, {.most_instances = 6}).max_gpus, 6);
  EXPECT_EQ(Policy(kTarget, {.most_instances = 1}).max_gpus, 2);  // one of each role
  const std::string bounded = std::string(kTarget) + "  scaling: {maxGPUs: 4}\n";
  EXPECT_EQ(Policy(bounded, {.most_instances = 6}).max_gpus, 4);
}

TEST(FillPolicy, LeavesWhatTheSpecLeavesOut) {
  ScalingPolicy policy;
  policy.attention.max = 7;
  policy.experts.min = 3;
  policy.is_advisory = true;
  policy.aim = 0.5;
  ASSERT_TRUE(FillPolicy(SpecWith(kTarget), policy).ok());
  EXPECT_EQ(policy.attention.max, 7);
  EXPECT_EQ(policy.experts.min, 3);
  EXPECT_TRUE(policy.is_advisory);
  EXPECT_EQ(policy.aim, 0.5);
}

}  // namespace
}  // namespace janus::control
