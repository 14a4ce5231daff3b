#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/latency_pairs.h"

namespace janus {

// What one gateway has counted since it started, for scaling decisions. A request here is one
// answer to generate: a call with two prompts and n = 3 is six. Its prompt has to be read
// (tokenized) before it counts as arrived, so client errors in a body never do.
//
// A gateway sends it to every attention instance it is attached to (proto/tokens.proto), and the
// instances hand it on with their statistics.
struct GatewayCounts {
  std::string gateway_id;  // new at every start of a gateway, so no counter goes back
  // How many different reports the gateway has made. The largest of several is the newest; 0: it is
  // attached and has not reported, as gateways of older versions never do.
  uint64_t reports = 0;
  double age_seconds = 0;    // since the gateway began to count
  bool is_attached = false;  // to the instance that says so

  // Counters.
  uint64_t arrived = 0;               // requests, served or not
  uint64_t prompt_tokens = 0;         // of them
  uint64_t prompt_squares = 0;        // sum over them of the square of a prompt's tokens
  uint64_t cached_prompt_tokens = 0;  // of prompt_tokens, found in the prefix cache
  // Refused for load before the prompt was read: not among `arrived`, and calls, not requests.
  uint64_t unread = 0;
  uint64_t refused = 0;        // for load, after they had arrived
  uint64_t failed = 0;         // through no fault of the client
  uint64_t finished = 0;       // with all of their answer
  uint64_t output_tokens = 0;  // of finished ones
  LatencyPairs latencies;      // of finished ones: each is in it once

  // Now: requests that no instance has been given yet.
  uint64_t waiting = 0;
  uint64_t waiting_prompt_tokens = 0;
  double oldest_waiting_seconds = 0;

  // Requests that have ended. Those whose client left, or that were the client's own error, are
  // not among them.
  uint64_t ended() const { return unread + refused + failed + finished; }

  friend bool operator==(const GatewayCounts&, const GatewayCounts&) = default;
};

// The gateways that a service's instances know. At most kMost.
struct GatewayReports {
  static constexpr size_t kMost = 256;

  std::vector<GatewayCounts> gateways;  // no two of one id
  uint64_t left_out = 0;                // attached ones that there was no room for

  friend bool operator==(const GatewayReports&, const GatewayReports&) = default;
};

// Adds what another instance knows. Of two reports of one gateway the newer one stays, and it is
// attached if either says so. Beyond the bound, gateways that are not attached go first.
void JoinGateways(const GatewayReports& more, GatewayReports& to);

}  // namespace janus
