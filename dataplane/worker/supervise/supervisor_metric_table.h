#pragma once

#include "common/metrics.h"

namespace janus::dataplane {

// The metric of the supervisor of a pod's instances.
inline constexpr MetricDeclaration kSupervisorMetrics[] = {
    {"janus_worker_restarts_total", MetricType::kCounter, "index", "processes",
     "Times that the pod's supervisor started this instance again, because it had ended or hung."},
};

}  // namespace janus::dataplane
