#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/measured_link.h"
#include "controllers/exchange/counts.h"

namespace janus::controllers {

// How long a round of the exchange takes in each mode, from what its links were measured to do
// (docs/exchange.md). Pure.

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

// In either direction: the latency; what each further message costs the instance that sends or
// receives most; and the time of the busiest card for the bytes that it sends or receives. In the
// two-phase modes also the copies within the nodes.
double RoundSeconds(ExchangeMode mode, const ExchangeRound& round, const NodeLinks& links);
ModeTimes TimesOfModes(const ExchangeRound& round, const NodeLinks& links);

// Data messages between nodes in one direction of a round.
int MessagesOneWay(ExchangeMode mode, const ExchangeRound& round);

// The fastest of `allowed`, which is not empty. `current` stays unless another one takes at most
// 1 - `gain` of its time. Of modes that are equal within 1 %, Direct is first, then Parallel.
ExchangeMode FastestMode(const ModeTimes& times, const std::vector<ExchangeMode>& allowed,
                         const ExchangeMode* current, double gain);

}  // namespace janus::controllers
