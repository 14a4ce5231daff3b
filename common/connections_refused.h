#pragma once

#include "common/metrics.h"

namespace janus {

// Every listener of a process counts the connections and calls that it refuses by this metric
// (docs/metrics.md): calls in rpc/credentials, the exchange in dataplane/comm/handshake.
inline constexpr MetricDeclaration kRefusalMetrics[] = {
    {"janus_connections_refused_total", MetricType::kCounter, "reason", "connections",
     "Connections and calls refused for who the peer is, by reason."},
};

}  // namespace janus
