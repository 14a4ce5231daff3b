#pragma once

#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/metrics.h"
#include "operator/api/tree.h"
#include "operator/reconcile/reconciler.h"

namespace janus::control {

// Counters of the reconcile loop, with controller-runtime's names; docs/metrics.md lists all
// metrics. Handles: thread-safe.
struct ManagerMetrics {
  explicit ManagerMetrics(MetricRegistry& registry);

  // Counts one pass. A pass that ended because its term ended is not counted.
  void Passed(const PassResult& result, Seconds took);

  Gauge& max_concurrent;
  Gauge& active_workers;
  Histogram& seconds;
  Counter& succeeded;
  Counter& succeeded_with_date;  // with a time for the next pass
  Counter& failed;
  Counter& errors;
  Counter& terms;
  Gauge& synced;
  Gauge& resident_bytes;
};

// Series of each service, from its spec and status; they disappear with the service.
class ServiceFamilies {
 public:
  ServiceFamilies();
  // `gpu_seconds`: total so far; nothing: not known yet.
  void Add(const Node& service, std::optional<double> gpu_seconds = {});
  // What decisions have left in the book.
  void Add(const RecordedFigures& figures);
  std::vector<MetricFamily> Take() &&;

 private:
  MetricFamily desired_;
  MetricFamily ready_;
  MetricFamily epoch_;
  MetricFamily exchange_;
  MetricFamily pools_;
  MetricFamily target_;
  MetricFamily tpot_;
  MetricFamily ttft_;
  MetricFamily predicted_;
  MetricFamily attainment_;
  MetricFamily decisions_;
  MetricFamily model_error_;
  MetricFamily busiest_;
  MetricFamily imbalance_;
  MetricFamily gpu_seconds_;
  MetricFamily condition_;
};

}  // namespace janus::control
