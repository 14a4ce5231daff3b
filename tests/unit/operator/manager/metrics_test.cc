#include "operator/manager/metrics.h"

#include <gtest/gtest.h>

#include <map>

#include "operator/api/yaml.h"

namespace janus::control {
namespace {

std::map<std::string, double> Values(const std::vector<MetricFamily>& families) {
  std::map<std::string, double> out;
  for (const MetricFamily& family : families) {
    for (const MetricFamily::Series& series : family.series) {
      std::string name = family.name;
      for (const auto& [label, value] : series.labels) name += " " + value;
      out[name] = series.value;
    }
  }
  return out;
}

std::vector<MetricFamily> FamiliesOf(const Node& service) {
  ServiceFamilies families;
  families.Add(service);
  return std::move(families).Take();
}

TEST(ServiceFamilies, TellWhatTheStatusTells) {
  const Result<Node> service = ParseYaml(
      "metadata: {name: chat, namespace: prod}\n"
      "spec:\n"
      "  slo: {tpot: {targetMilliseconds: 50, percentile: P99}, ttft: {targetMilliseconds: 2000}}\n"
      "status:\n"
      "  slo: {tpotMicroseconds: 41000, tokensPerSecond: 7}\n"
      "  roles:\n"
      "  - {name: attention, desiredInstances: 2, readyReplicas: 2, readyInstances: 1}\n"
      "  - {name: experts, desiredInstances: 4}\n"
      "  topology: {epoch: 7, imbalancePermille: 1250, exchangeMode: Direct, gate: Experts, "
      "exchangeReason: it is the fastest}\n"
      "  pools: [{number: 1, state: Serving}, {number: 2, state: Serving}, "
      "{number: 3, state: Draining}]\n"
      "  conditions:\n"
      "  - {type: Ready, status: 'False', reason: GatewayNotReady, lastTransitionTime: "
      "'2026-01-01T00:00:00Z'}\n"
      "  - {type: Available, status: 'True', reason: Serving, lastTransitionTime: "
      "'2026-01-01T00:00:00Z'}\n"
      "  - {type: SLOMet, status: Unknown, reason: NoMetrics, lastTransitionTime: "
      "'2026-01-01T00:00:00Z'}\n",
      "chat");
  ASSERT_TRUE(service.ok()) << service.status().ToString();
  const std::map<std::string, double> wanted = {
      {"janus_role_desired_replicas prod chat attention", 2},
      {"janus_role_desired_replicas prod chat experts", 4},
      {"janus_role_ready_replicas prod chat attention", 1},
      {"janus_topology_epoch prod chat", 7},
      {"janus_exchange_info prod chat Direct Experts it is the fastest", 1},
      {"janus_pools prod chat Serving", 2},
      {"janus_pools prod chat Draining", 1},
      {"janus_slo_target_seconds prod chat tpot", 0.05},
      {"janus_slo_target_seconds prod chat ttft", 2},
      {"janus_tpot_observed_seconds prod chat", 0.041},
      {"janus_activation_imbalance prod chat", 1.25},
      {"janus_service_condition prod chat Ready GatewayNotReady", 0},
      {"janus_service_condition prod chat Available Serving", 1},
      {"janus_service_condition prod chat SLOMet NoMetrics", -1}};
  const std::map<std::string, double> seen = Values(FamiliesOf(*service));
  ASSERT_EQ(seen.size(), wanted.size());
  for (const auto& [name, value] : wanted) {
    ASSERT_TRUE(seen.contains(name)) << name;
    EXPECT_DOUBLE_EQ(seen.at(name), value) << name;
  }
}

TEST(ServiceFamilies, WhatIsMeasuredIsNotToldWithoutATarget) {
  const Result<Node> service = ParseYaml(
      "{metadata: {name: chat, namespace: prod}, "
      "status: {slo: {tpotMicroseconds: 41000, ttftMicroseconds: 900}}}",
      "chat");
  EXPECT_TRUE(Values(FamiliesOf(*service)).empty());
}

TEST(ServiceFamilies, TellHowManyGpuSecondsThereWere) {
  ServiceFamilies families;
  families.Add(*ParseYaml("metadata: {name: chat, namespace: prod}", "chat"), 12.5);
  EXPECT_EQ(Values(std::move(families).Take()),
            (std::map<std::string, double>{{"janus_gpu_seconds_total prod chat", 12.5}}));
}

TEST(ServiceFamilies, AServiceWithoutAStatusHasNoSeries) {
  EXPECT_TRUE(Values(FamiliesOf(*ParseYaml("metadata: {name: a}", "a"))).empty());
}

TEST(ManagerMetrics, CountPassesByWhatTheyCameTo) {
  MetricRegistry registry;
  ManagerMetrics metrics(registry);
  metrics.Passed({OkStatus(), {}}, Seconds(1));
  metrics.Passed({OkStatus(), MonotonicTime()}, Seconds(1));
  metrics.Passed({Unavailable("x"), MonotonicTime()}, Seconds(1));
  metrics.Passed({Cancelled("the term is over"), {}}, Seconds(100));
  EXPECT_EQ(metrics.succeeded.value(), 1u);
  EXPECT_EQ(metrics.succeeded_with_date.value(), 1u);
  EXPECT_EQ(metrics.failed.value(), 1u);
  EXPECT_EQ(metrics.errors.value(), 1u);
  EXPECT_EQ(metrics.seconds.Sample().sum, 3);
}

}  // namespace
}  // namespace janus::control
