#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/measured_link.h"
#include "controllers/exchange/counts.h"

namespace janus::controllers {

// How long a round of the exchange takes in each mode, and with the gate on either side, from what
// its links were measured to do (docs/exchange.md). Pure.

inline constexpr std::array<ExchangeMode, 3> kExchangeModes = {
    ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel};

// The link of a pair of nodes.
struct NodeLink {
  MeasuredLink link;
  bool is_inside = false;  // they share memory: no card is used
};
// [attention node][expert node].
using NodeLinks = std::vector<std::vector<NodeLink>>;

// Seconds by mode, in the order of kExchangeModes.
struct ModeTimes {
  std::array<double, 3> seconds{};
  double of(ExchangeMode mode) const { return seconds[static_cast<size_t>(mode)]; }
};

// What an epoch chooses: the mode, and the role that computes the gate.
struct ExchangeWay {
  ExchangeMode mode = ExchangeMode::kDirect;
  GateSide gate = GateSide::kExperts;
  friend bool operator==(const ExchangeWay&, const ExchangeWay&) = default;
};

// Seconds with the gate on either side.
struct WayTimes {
  std::array<ModeTimes, 2> of_gate{};  // by GateSide
  double of(const ExchangeWay& way) const {
    return of_gate[static_cast<size_t>(way.gate)].of(way.mode);
  }
};

// In either direction: the latency, and the longer of two things that go on at once: what each
// further message costs the instance that sends or receives most, and the busiest card's bytes. In
// the two-phase modes also the copies within the nodes; in mode Direct with the gate on attention
// the sender's copies, since each receiver gets other rows. The gate's own computation does not
// count. If payloads stay in GPUs, a read asks for them once its message is there, and costs its
// reader a further message; mates read in place what has landed for their node.
double RoundSeconds(ExchangeMode mode, const ExchangeRound& round, const NodeLinks& links);
ModeTimes TimesOfModes(const ExchangeRound& round, const NodeLinks& links);
// `round` has the shares of rows that receivers need with the gate on attention. Without them both
// sides have the times of the gate on experts.
WayTimes TimesOfWays(const ExchangeRound& round, const NodeLinks& links);

// Data messages between nodes in one direction of a round.
int MessagesOneWay(ExchangeMode mode, const ExchangeRound& round);

// The fastest of `allowed`, which is not empty. `current` stays unless another one takes at most
// 1 - `gain` of its time. Of ways that are equal within 1 %, those with the gate on experts are
// first; of these Direct, then Parallel.
ExchangeWay FastestWay(const WayTimes& times, const std::vector<ExchangeWay>& allowed,
                       const ExchangeWay* current, double gain);

}  // namespace janus::controllers
