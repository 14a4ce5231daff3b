#pragma once

#include <vector>

#include "common/metrics.h"
#include "common/statistics.h"
#include "dataplane/steps/step_metrics.h"

namespace janus::dataplane {

// The metrics of one instance for a scrape (docs/metrics.md). `epoch`: the committed one; 0 before.
std::vector<MetricFamily> WorkerMetrics(const InstanceStatistics& statistics, uint64_t epoch,
                                        const StepMetrics& metrics);

}  // namespace janus::dataplane
