#include "common/exchange_lanes.h"

#include <algorithm>

#include "common/check.h"

namespace janus {
namespace {

// The instances of an attention node that are ends of its lanes to one expert node. Over all expert
// nodes each instance is an end about equally often.
std::vector<int> EndsTo(const std::vector<int>& node, size_t expert_node, size_t expert_nodes,
                        ExchangeMode mode) {
  if (mode == ExchangeMode::kTwoPhaseSingle) return {node.front()};
  if (expert_nodes >= node.size()) return {node[expert_node % node.size()]};
  std::vector<int> ends;
  for (size_t i = expert_node; i < node.size(); i += expert_nodes) ends.push_back(node[i]);
  return ends;
}

}  // namespace

std::vector<std::vector<int>> RanksOfNodes(std::span<const int> nodes_of_ranks) {
  std::vector<std::vector<int>> nodes;
  for (size_t rank = 0; rank < nodes_of_ranks.size(); ++rank) {
    const auto node = static_cast<size_t>(nodes_of_ranks[rank]);
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node].push_back(static_cast<int>(rank));
  }
  for (const std::vector<int>& node : nodes) JANUS_CHECK(!node.empty(), "a node number is missing");
  return nodes;
}

std::vector<ExchangeLane> LanesBetween(ExchangeMode mode, std::span<const int> attention_nodes,
                                       std::span<const int> expert_nodes) {
  const std::vector<std::vector<int>> attention = RanksOfNodes(attention_nodes);
  const std::vector<std::vector<int>> experts = RanksOfNodes(expert_nodes);
  std::vector<ExchangeLane> out;
  for (size_t a = 0; a < attention.size(); ++a) {
    for (size_t e = 0; e < experts.size(); ++e) {
      const std::vector<int> ends = EndsTo(attention[a], e, experts.size(), mode);
      for (size_t l = 0; l < ends.size(); ++l) {
        ExchangeLane lane;
        lane.attention_end = ends[l];
        const size_t place = mode == ExchangeMode::kTwoPhaseSingle ? 0 : a * ends.size() + l;
        lane.expert_end = experts[e][place % experts[e].size()];
        lane.experts = experts[e];
        out.push_back(std::move(lane));
      }
      // An end carries its own rows. The others take the lanes in turn.
      const std::span<ExchangeLane> lanes = std::span(out).last(ends.size());
      for (size_t i = 0, turn = 0; i < attention[a].size(); ++i) {
        const int rank = attention[a][i];
        const auto own = std::ranges::find(lanes, rank, &ExchangeLane::attention_end);
        ExchangeLane& lane = own != lanes.end() ? *own : lanes[turn++ % lanes.size()];
        lane.attention.push_back(rank);
      }
    }
  }
  return out;
}

}  // namespace janus
