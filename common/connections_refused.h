#pragma once

#include "common/metrics.h"

namespace janus {

// By which every door of a process counts whom it does not let in (docs/metrics.md): calls in
// rpc/credentials, the exchange in dataplane/comm.
inline constexpr MetricDeclaration kRefusalMetrics[] = {
    {"janus_connections_refused_total", MetricType::kCounter, "reason", "connections",
     "Connections and calls refused because of the peer, by reason."},
};

}  // namespace janus
