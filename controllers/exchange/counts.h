#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "common/topology.h"

namespace janus::controllers {

// What travels in a round of the exchange: messages, and their bytes. The counts are those of what
// workers send (common/exchange_lanes.h, common/exchange_size.h). Plans and the choice of a mode
// take all times from them. Pure.

// The rows of a round. Every attention instance has the same number, and the expert instances share
// the contributions equally.
struct RoundRows {
  double rows = 0;       // of one attention instance
  double row_bytes = 0;  // on the wire; of a contribution, too
  double top_k = 1;
  double experts = 0;  // of a layer
  // With exact sums: bytes of a sum. An instance, in the two-phase modes a node, sends one for each
  // row that it computes something for. 0: contributions travel.
  double sum_bytes = 0;
};

// The share of rows that choose one of `held` experts of `experts`, if routing is uniform: 1 -
// C(experts - held, K) / C(experts, K). The arguments may be fractional.
double NeededShare(double experts, double top_k, double held);

// What one attention instance sends to an expert instance or node, without heads. With the gate on
// attention: the choices of all rows, and this share of the rows.
double RowsBytes(const RoundRows& round, GateSide gate, double needed);

// What `instances` of n expert instances, which add their sums if there are any, send to one
// attention instance, without heads.
double RepliesBytes(const RoundRows& round, double instances, double n);

// A round between any nodes --------------------------------------------------------------------

struct ExchangeRound : RoundRows {
  // By rank: the node, numbered from 0 in each role without gaps.
  std::vector<int> attention_nodes;
  std::vector<int> expert_nodes;
  // By rank, attention first: its network card, any numbers. Instances of a pod may share one.
  std::vector<int> cards;
  // With the gate on attention: the share of the rows of which an expert instance, by rank, or a
  // node holds a chosen expert. Only these travel, behind what all rows chose. Empty: all travel.
  std::vector<double> needed_by_expert;
  std::vector<double> needed_by_node;
  // Rows and contributions stay in the GPUs (docs/exchange.md): messages carry the rest, and
  // networks read them from GPU to GPU. Only with contributions, and with the gate on experts.
  bool in_gpus = false;

  int m() const { return static_cast<int>(attention_nodes.size()); }
  int n() const { return static_cast<int>(expert_nodes.size()); }
};

// A message between two instances; attention first, whichever sends it.
struct ExchangeMessage {
  int attention = 0;
  int expert = 0;
  double bytes = 0;  // with its heads
};

// The messages of one direction.
std::vector<ExchangeMessage> MessagesOf(ExchangeMode mode, const ExchangeRound& round, bool is_out);
// With in_gpus, what is read from GPU to GPU in one direction. In the two-phase modes one instance
// of an expert node reads rows for all.
std::vector<ExchangeMessage> ReadsOf(ExchangeMode mode, const ExchangeRound& round, bool is_out);

// A round between full nodes --------------------------------------------------------------------

// Instances fill nodes of one size for each role; the last node of a role may have fewer.
struct FullNodes {
  int m = 1;
  int n = 1;
  int attention_per_node = 1;
  int experts_per_node = 1;

  int AttentionNodes() const { return (m + attention_per_node - 1) / attention_per_node; }
  int ExpertNodes() const { return (n + experts_per_node - 1) / experts_per_node; }
  int LastExperts() const { return n - (ExpertNodes() - 1) * experts_per_node; }
};

// How much one instance does for the lanes that end there. In mode Direct each pair of instances is
// a lane.
struct EndLoad {
  int lanes = 0;
  // Over its lanes: attention instances that they carry, to or from expert nodes of full size.
  int carried = 0;
  int carried_last = 0;  // the same for the last expert node, if it has fewer instances
};

// The loads of the instances that may be the busiest of their role. Any other instance has no more
// lanes and carries no more.
class EndLoads {
 public:
  // Drops what the others exceed.
  void Add(const EndLoad& load);
  const EndLoad* begin() const { return loads_.data(); }
  const EndLoad* end() const { return begin() + size_; }

 private:
  // Searches count for many m and n, so this needs no memory of its own. Loads differ by a lane or
  // two, so there are few.
  std::array<EndLoad, 16> loads_{};
  size_t size_ = 0;
};
struct BusiestEnds {
  EndLoads attention;
  EndLoads experts;
  int gathered = 1;  // attention instances that the fullest lane carries
};
BusiestEnds BusiestEndsOf(ExchangeMode mode, const FullNodes& nodes);

struct FullRound : RoundRows {
  GateSide gate = GateSide::kExperts;
  // With the gate on attention: the shares of rows that an expert instance, a full expert node and
  // the last expert node need.
  double needed_by_expert = 1;
  double needed_by_node = 1;
  double needed_by_last = 1;
};

// The most that any instance of a role sends or receives in one direction.
struct BusiestCounts {
  double attention_messages = 0;
  double expert_messages = 0;
  double attention_bytes = 0;
  double expert_bytes = 0;
  // In the two-phase modes: bytes that pass between the busiest end and the other instances of its
  // node. 0: none. With exact sums an end gets more on the way back than it sends, because it adds.
  double attention_handed = 0;
  double expert_handed = 0;
};
BusiestCounts CountsOf(ExchangeMode mode, const FullNodes& nodes, const BusiestEnds& ends,
                       const FullRound& round, bool is_out);

// A lower bound of each count over all m from `fewest` to nodes.m, if all attention instances
// together have `all_rows` rows. round.rows does not matter. It falls as nodes.m grows.
BusiestCounts LeastCountsOf(ExchangeMode mode, const FullNodes& nodes, int fewest,
                            const FullRound& round, double all_rows, bool is_out);

}  // namespace janus::controllers
