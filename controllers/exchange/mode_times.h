#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/measured_link.h"
#include "common/topology.h"

namespace janus::controllers {

// How long a round of the exchange takes in each mode, from what its links were measured to do
// (docs/exchange.md). Messages and bytes are those that workers send (common/exchange_lanes.h,
// common/exchange_size.h). Pure.

inline constexpr std::array<ExchangeMode, 3> kExchangeModes = {
    ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel};

// One round. Every attention instance has the same number of rows, and the expert instances share
// the contributions equally.
struct ExchangeRound {
  // By rank: the node, numbered from 0 in each role without gaps.
  std::vector<int> attention_nodes;
  std::vector<int> expert_nodes;
  // By rank, attention first: its network card, any numbers. Instances of a pod may share one.
  std::vector<int> cards;
  double rows = 0;       // of one attention instance
  double row_bytes = 0;  // on the wire
  double top_k = 1;
  // With the gate on attention: the share of the rows of which an expert instance, by rank, or a
  // node holds a chosen expert. Only these travel, behind what all rows chose. Empty: all travel.
  std::vector<double> needed_by_expert;
  std::vector<double> needed_by_node;
  // With exact sums: bytes of a sum. An instance, in the two-phase modes a node, sends one for each
  // row that it computes something for. 0: contributions travel.
  double sum_bytes = 0;

  int m() const { return static_cast<int>(attention_nodes.size()); }
  int n() const { return static_cast<int>(expert_nodes.size()); }
};

// The share of rows that choose one of `held` experts of `experts`, if routing is uniform: 1 -
// C(experts - held, K) / C(experts, K).
double NeededShare(double experts, int top_k, double held);

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
