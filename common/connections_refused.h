#pragma once

namespace janus {

// The metric by which every door of a process counts whom it does not let in, with the label
// `reason` (docs/metrics.md).
inline constexpr const char* kConnectionsRefused = "janus_connections_refused_total";
inline constexpr const char* kConnectionsRefusedHelp =
    "Connections and calls refused for who the peer is, by reason.";

}  // namespace janus
