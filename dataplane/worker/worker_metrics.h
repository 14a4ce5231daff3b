#pragma once

#include <vector>

#include "common/metrics.h"
#include "common/statistics.h"

namespace janus::dataplane {

// Upper bounds of the buckets of a step's time, in seconds: targets lie between 5 and 100 ms.
std::vector<double> StepSecondsBounds();

// What a scrape sees of one instance (docs/metrics.md). `epoch`: the committed one, 0 before.
// `step_seconds`: of the steps that it ended.
std::vector<MetricFamily> WorkerMetrics(const InstanceStatistics& statistics, uint64_t epoch,
                                        const HistogramSample& step_seconds);

}  // namespace janus::dataplane
