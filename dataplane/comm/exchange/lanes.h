#pragma once

#include <vector>

#include "common/exchange_lanes.h"
#include "common/topology.h"
#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

using Lane = ExchangeLane;

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
