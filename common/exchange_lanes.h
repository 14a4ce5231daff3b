#pragma once

#include <span>
#include <vector>

#include "common/topology.h"

namespace janus {

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
struct ExchangeLane {
  int attention_end = 0;       // attention rank
  int expert_end = 0;          // expert rank
  std::vector<int> attention;  // ranks whose rows and contributions it carries; ascending
  std::vector<int> experts;    // ranks of the expert node; ascending
};

// `mode` is one of the two-phase modes. The spans have the node of each rank, numbered from 0
// without gaps. The lanes of an attention node to an expert node follow each other, first by
// attention node. Pure: workers exchange rows by it, and plans count messages by it.
std::vector<ExchangeLane> LanesBetween(ExchangeMode mode, std::span<const int> attention_nodes,
                                       std::span<const int> expert_nodes);

// The ranks of each node.
std::vector<std::vector<int>> RanksOfNodes(std::span<const int> nodes);

}  // namespace janus
