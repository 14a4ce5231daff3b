#pragma once

#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/metrics.h"
#include "operator/api/tree.h"
#include "operator/reconcile/reconciler.h"

namespace janus::control {

// What the loop counts, by controller-runtime's names; docs/metrics.md has all of them. Handles:
// thread-safe.
struct ManagerMetrics {
  explicit ManagerMetrics(MetricRegistry& registry);

  // One pass that took so long. One that was ended with its term counts nowhere.
  void Passed(const PassResult& result, Seconds took);

  Gauge& max_concurrent;
  Gauge& active_workers;
  Histogram& seconds;
  Counter& succeeded;
  Counter& succeeded_with_date;  // to look again later
  Counter& failed;
  Counter& errors;
  Counter& terms;
  Gauge& synced;
  Gauge& resident_bytes;
};

// Series of each service, from its spec and status: they come and go with it.
class ServiceFamilies {
 public:
  ServiceFamilies();
  // `gpu_seconds`: so far; nothing: not known yet.
  void Add(const Node& service, std::optional<double> gpu_seconds = {});
  std::vector<MetricFamily> Take() &&;

 private:
  MetricFamily desired_;
  MetricFamily ready_;
  MetricFamily epoch_;
  MetricFamily target_;
  MetricFamily tpot_;
  MetricFamily ttft_;
  MetricFamily imbalance_;
  MetricFamily gpu_seconds_;
  MetricFamily condition_;
};

}  // namespace janus::control
