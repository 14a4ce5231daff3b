#pragma once

#include "common/metrics.h"

namespace janus {

// Of workers and gateways, beside what else they count.
inline constexpr MetricDeclaration kRefusalMetrics[] = {
    {"janus_connections_refused_total", MetricType::kCounter, "reason", "connections",
     "Connections and calls refused for who the peer is, by reason."},
};

}  // namespace janus
