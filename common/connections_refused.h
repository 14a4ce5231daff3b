#pragma once

#include "common/metrics.h"

namespace janus {

// Counts the peers that a listener of this process refuses (docs/metrics.md): calls in
// rpc/credentials, the exchange in dataplane/comm/handshake.
inline constexpr MetricDeclaration kRefusalMetrics[] = {
    {"janus_connections_refused_total", MetricType::kCounter, "reason", "connections",
     "Connections and calls refused because of the peer, by reason."},
};

}  // namespace janus
