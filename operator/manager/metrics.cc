#include "operator/manager/metrics.h"

#include <string>
#include <utility>

#include "operator/kube/object.h"
#include "operator/reconcile/conditions.h"

namespace janus::control {
namespace {

constexpr const char* kController = "moeservice";

// controller-runtime's, and below them where most passes are: what writes nothing takes well under
// a millisecond.
const std::vector<double> kPassBounds{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05,
                                      0.1,  0.25,   0.5,  1,    2.5,    5,    10,   30,    60};

Counter& Total(MetricRegistry& registry, const char* result) {
  return registry.AddCounter("controller_runtime_reconcile_total",
                             {{"controller", kController}, {"result", result}},
                             "Passes over services, by what they came to.");
}

MetricFamily GaugeFamily(const char* name, const char* help) {
  return {name, help, MetricType::kGauge, {}};
}

MetricLabels LabelsOf(const Node& service) {
  const ObjectKey key = KeyOf(service);
  return {{"namespace", key.namespace_}, {"service", key.name}};
}

void AddSeries(MetricFamily& family, MetricLabels labels, double value) {
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
    if (const auto value = IntegerAt(role, {"readyReplicas"})) {
      AddSeries(ready, labels, static_cast<double>(*value));
    }
  }
}

}  // namespace

ManagerMetrics::ManagerMetrics(MetricRegistry& r)
    : max_concurrent(r.AddGauge("controller_runtime_max_concurrent_reconciles",
                                {{"controller", kController}}, "Workers of the loop.")),
      active_workers(r.AddGauge("controller_runtime_active_workers", {{"controller", kController}},
                                "Workers that are in a pass.")),
      seconds(r.AddHistogram("controller_runtime_reconcile_time_seconds",
                             {{"controller", kController}}, "Time of a pass over a service.",
                             kPassBounds)),
      succeeded(Total(r, "success")),
      succeeded_with_date(Total(r, "requeue_after")),
      failed(Total(r, "error")),
      errors(r.AddCounter("controller_runtime_reconcile_errors_total",
                          {{"controller", kController}},
                          "Passes that are tried again because of an error.")),
      terms(r.AddCounter("janus_operator_terms_total", {}, "Terms of leadership that began here.")),
      synced(r.AddGauge("janus_operator_synced", {},
                        "1: every informer has held everything once; passes begin then.")),
      resident_bytes(
          r.AddGauge("process_resident_memory_bytes", {}, "Resident memory size in bytes.")) {}

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
    : desired_(GaugeFamily("janus_role_desired_replicas", "Instances that a role should have.")),
      ready_(GaugeFamily("janus_role_ready_replicas", "Members of a role that are ready.")),
      epoch_(GaugeFamily("janus_topology_epoch", "Epoch of the committed topology.")),
      condition_(GaugeFamily("janus_service_condition",
                             "A condition of a service: 1 True, 0 False, -1 Unknown.")) {}

void ServiceFamilies::Add(const Node& service) {
  AddRoles(service, desired_, ready_);
  if (const auto number = IntegerAt(service, {"status", "topology", "epoch"})) {
    AddSeries(epoch_, LabelsOf(service), static_cast<double>(*number));
  }
  for (const Condition& one : ReadConditions(service)) {
    MetricLabels labels = LabelsOf(service);
    labels.emplace_back("condition", one.type);
    AddSeries(condition_, std::move(labels),
              one.status == ConditionStatus::kTrue    ? 1
              : one.status == ConditionStatus::kFalse ? 0
                                                      : -1);
  }
}

std::vector<MetricFamily> ServiceFamilies::Take() && {
  std::vector<MetricFamily> out;
  for (MetricFamily* one : {&desired_, &ready_, &epoch_, &condition_}) {
    out.push_back(std::move(*one));
  }
  return out;
}

}  // namespace janus::control
