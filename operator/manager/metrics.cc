#include "operator/manager/metrics.h"

#include <map>
#include <string>
#include <utility>

#include "common/check.h"
#include "operator/kube/object.h"
#include "operator/manager/metric_table.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::control {
namespace {

constexpr const char* kController = "moeservice";

// controller-runtime's bounds, and lower ones: a pass that writes nothing takes less than a
// millisecond.
const std::vector<double> kPassBounds{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05,
                                      0.1,  0.25,   0.5,  1,    2.5,    5,    10,   30,    60};

consteval Metric Of(std::string_view name) {
  return {kManagerMetrics, name};
}

consteval Metric OfServices(std::string_view name) {
  return {kServiceMetrics, name};
}

Counter& Total(MetricRegistry& registry, const char* result) {
  return registry.AddCounter(Of("controller_runtime_reconcile_total"),
                             {{"controller", kController}, {"result", result}});
}

MetricLabels LabelsOf(const Node& service) {
  const ObjectKey key = KeyOf(service);
  return {{"namespace", key.namespace_}, {"service", key.name}};
}

void AddSeries(MetricFamily& family, MetricLabels labels, double value) {
  JANUS_CHECK(AreDeclared(labels, family.label_names), family.name);
  family.series.push_back({std::move(labels), value, {}});
}

void AddRoles(const Node& service, MetricFamily& desired, MetricFamily& ready) {
  const Node* roles = FindAt(service, {"status", "roles"});
  if (roles == nullptr) return;
  for (const Node& role : roles->items) {
    MetricLabels labels = LabelsOf(service);
    labels.emplace_back("role", TextAt(role, {"name"}));
    if (const auto value = IntegerAt(role, {"desiredInstances"})) {
      AddSeries(desired, labels, static_cast<double>(*value));
    }
    if (const auto value = IntegerAt(role, {"readyInstances"})) {
      AddSeries(ready, labels, static_cast<double>(*value));
    }
  }
}

// A measured latency needs a target, which sets its percentile.
void AddSlo(const Node& service, std::string_view slo, std::string_view measured,
            MetricFamily& target, MetricFamily& observed) {
  const auto wanted = IntegerAt(service, {"spec", "slo", slo, "targetMilliseconds"});
  if (!wanted) return;
  MetricLabels labels = LabelsOf(service);
  const auto seen = IntegerAt(service, {"status", "slo", measured});
  if (seen) AddSeries(observed, labels, static_cast<double>(*seen) * 1e-6);
  labels.emplace_back("slo", slo);
  AddSeries(target, std::move(labels), static_cast<double>(*wanted) * 1e-3);
}

}  // namespace

ManagerMetrics::ManagerMetrics(MetricRegistry& r)
    : max_concurrent(r.AddGauge(Of("controller_runtime_max_concurrent_reconciles"),
                                {{"controller", kController}})),
      active_workers(
          r.AddGauge(Of("controller_runtime_active_workers"), {{"controller", kController}})),
      seconds(r.AddHistogram(Of("controller_runtime_reconcile_time_seconds"),
                             {{"controller", kController}}, kPassBounds)),
      succeeded(Total(r, "success")),
      succeeded_with_date(Total(r, "requeue_after")),
      failed(Total(r, "error")),
      errors(r.AddCounter(Of("controller_runtime_reconcile_errors_total"),
                          {{"controller", kController}})),
      terms(r.AddCounter(Of("janus_operator_terms_total"), {})),
      synced(r.AddGauge(Of("janus_operator_synced"), {})),
      resident_bytes(r.AddGauge(Of("process_resident_memory_bytes"), {})) {}

void ManagerMetrics::Passed(const PassResult& result, Seconds took) {
  if (result.status.code() == StatusCode::kCancelled) return;
  seconds.Observe(took.count());
  if (!result.status.ok()) {
    failed.Add();
    errors.Add();
  } else {
    (result.again ? succeeded_with_date : succeeded).Add();
  }
}

ServiceFamilies::ServiceFamilies()
    : desired_(OfServices("janus_role_desired_replicas")),
      ready_(OfServices("janus_role_ready_replicas")),
      epoch_(OfServices("janus_topology_epoch")),
      exchange_(OfServices("janus_exchange_info")),
      pools_(OfServices("janus_pools")),
      target_(OfServices("janus_slo_target_seconds")),
      tpot_(OfServices("janus_tpot_observed_seconds")),
      ttft_(OfServices("janus_ttft_observed_seconds")),
      predicted_(OfServices("janus_tpot_predicted_seconds")),
      attainment_(OfServices("janus_slo_attainment_ratio")),
      decisions_(OfServices("janus_scaling_decisions_total")),
      model_error_(OfServices("janus_model_error_ratio")),
      busiest_(OfServices("janus_placement_busiest_experts")),
      imbalance_(OfServices("janus_activation_imbalance")),
      gpu_seconds_(OfServices("janus_gpu_seconds_total")),
      condition_(OfServices("janus_service_condition")) {}

void ServiceFamilies::Add(const Node& service, std::optional<double> gpu_seconds) {
  AddRoles(service, desired_, ready_);
  if (const auto number = IntegerAt(service, {"status", "topology", "epoch"})) {
    AddSeries(epoch_, LabelsOf(service), static_cast<double>(*number));
  }
  if (const Node* const topology = FindAt(service, {"status", "topology"});
      topology != nullptr && !TextAt(*topology, {"exchangeMode"}).empty()) {
    MetricLabels labels = LabelsOf(service);
    labels.emplace_back("mode", TextAt(*topology, {"exchangeMode"}));
    labels.emplace_back("gate", TextAt(*topology, {"gate"}));
    labels.emplace_back("why", TextAt(*topology, {"exchangeReason"}));
    AddSeries(exchange_, std::move(labels), 1);
  }
  if (const Node* const pools = FindAt(service, {"status", "pools"})) {
    std::map<std::string, int> count;
    for (const Node& one : pools->items) ++count[std::string(TextAt(one, {"state"}))];
    for (const auto& [state, number] : count) {
      MetricLabels labels = LabelsOf(service);
      labels.emplace_back("state", state);
      AddSeries(pools_, std::move(labels), number);
    }
  }
  AddSlo(service, "tpot", "tpotMicroseconds", target_, tpot_);
  AddSlo(service, "ttft", "ttftMicroseconds", target_, ttft_);
  if (const auto number = IntegerAt(service, {"status", "decision", "predictedTPOTMicroseconds"})) {
    AddSeries(predicted_, LabelsOf(service), static_cast<double>(*number) * 1e-6);
  }
  if (const auto number = IntegerAt(service, {"status", "slo", "attainmentPermille"})) {
    AddSeries(attainment_, LabelsOf(service), static_cast<double>(*number) * 1e-3);
  }
  if (const auto number = IntegerAt(service, {"status", "topology", "imbalancePermille"})) {
    AddSeries(imbalance_, LabelsOf(service), static_cast<double>(*number) * 1e-3);
  }
  if (gpu_seconds) AddSeries(gpu_seconds_, LabelsOf(service), *gpu_seconds);
  for (const Condition& one : ReadConditions(service)) {
    MetricLabels labels = LabelsOf(service);
    labels.emplace_back("condition", one.type);
    labels.emplace_back("reason", one.reason);
    AddSeries(condition_, std::move(labels),
              one.status == ConditionStatus::kTrue    ? 1
              : one.status == ConditionStatus::kFalse ? 0
                                                      : -1);
  }
}

void ServiceFamilies::Add(const RecordedFigures& figures) {
  const MetricLabels service = {{"namespace", figures.key.namespace_},
                                {"service", figures.key.name}};
  const auto with = [&](std::initializer_list<MetricLabels::value_type> more) {
    MetricLabels labels = service;
    labels.insert(labels.end(), more);
    return labels;
  };
  for (const auto& [why, count] : figures.decided) {
    AddSeries(decisions_, with({{"action", why.first}, {"reason", why.second}}),
              static_cast<double>(count));
  }
  if (figures.model_error) AddSeries(model_error_, service, *figures.model_error);
  if (!figures.busiest) return;
  AddSeries(busiest_, with({{"placement", "before"}}), figures.busiest->first);
  AddSeries(busiest_, with({{"placement", "after"}}), figures.busiest->second);
}

std::vector<MetricFamily> ServiceFamilies::Take() && {
  std::vector<MetricFamily> out;
  for (MetricFamily* one : {&desired_, &ready_, &epoch_, &exchange_, &pools_, &target_, &tpot_,
                            &ttft_, &predicted_, &attainment_, &decisions_, &model_error_,
                            &busiest_, &imbalance_, &gpu_seconds_, &condition_}) {
    out.push_back(std::move(*one));
  }
  return out;
}

}  // namespace janus::control
