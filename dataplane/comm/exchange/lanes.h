#pragma once

#include <vector>

#include "common/topology.h"
#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

// The ways between nodes in the two-phase modes (JANUS, section 3.2). A node is a set of instances
// of one role that share memory. All messages between an attention node and an expert node travel
// between the two ends of a lane, one instance on either side. The other instances of a node hand
// their messages to their end, and read there what has come for them.
//
//   TwoPhaseSingle    one lane for each pair of nodes; the first instance of a node is the end of
//                     all its lanes
//   TwoPhaseParallel  the ends are spread over the instances, so that each uses its own network
//                     card. With fewer expert nodes than instances in an attention node, a pair of
//                     nodes has several lanes, and each carries the rows of some instances.
struct Lane {
  int attention_end = 0;       // attention rank
  int expert_end = 0;          // expert rank
  std::vector<int> attention;  // ranks whose rows and contributions it carries; ascending
  std::vector<int> experts;    // ranks of the expert node; ascending
};

// The lanes of an epoch: equal on all its members. Immutable. The pointers that it returns are
// valid as long as it lives; it must not be moved.
class Lanes {
 public:
  // `mode` is one of the two-phase modes. Nodes are those of `shape.node_of`.
  Lanes(ExchangeMode mode, const ExchangeShape& shape);
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  const std::vector<Lane>& all() const { return all_; }
  // The lanes that end at the attention instance. All of them carry the same ranks.
  std::vector<const Lane*> EndingAtAttention(int rank) const;
  std::vector<const Lane*> EndingAtExpert(int rank) const;
  // The lanes that carry an attention instance's rows: one to each expert node.
  std::vector<const Lane*> OfAttention(int rank) const;
  // The lanes into an expert instance's node.
  std::vector<const Lane*> OfExpert(int rank) const;

  // By expert rank, its node: TransportLayout::expert_nodes.
  const std::vector<int>& expert_nodes() const { return expert_nodes_; }

 private:
  std::vector<int> expert_nodes_;
  std::vector<Lane> all_;
};

}  // namespace janus::dataplane
