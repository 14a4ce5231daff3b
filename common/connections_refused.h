#pragma once

#include "common/metrics.h"

namespace janus {

<<<<<<< HEAD
// By which every door of a process counts whom it does not let in (docs/metrics.md): calls in
// rpc/credentials, the exchange in dataplane/comm.
=======
// Counts the peers that a listener of this process refuses (docs/metrics.md): calls in
// proto/credentials, the exchange in dataplane/comm.
>>>>>>> 03b4eda0 (comments: machines are no people any more in common, kernels, the gateway, the worker, the engine, tests/support, bench and scripts)
inline constexpr MetricDeclaration kRefusalMetrics[] = {
    {"janus_connections_refused_total", MetricType::kCounter, "reason", "connections",
     "Connections and calls refused because of the peer, by reason."},
};

}  // namespace janus
