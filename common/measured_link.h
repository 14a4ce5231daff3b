#pragma once

namespace janus {

// What a member has measured between itself and a peer on another node.
struct MeasuredLink {
  double latency_seconds = 0;   // of a small message, one way
  double bytes_per_second = 0;  // of a large message
  double message_seconds = 0;   // of one more small message behind another
  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

}  // namespace janus
