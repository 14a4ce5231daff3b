#include "dataplane/comm/exchange/lanes.h"

#include <algorithm>
#include <span>

namespace janus::dataplane {
namespace {

// The ranks of each node. `node_of` has one entry for each rank, from 0 without gaps.
std::vector<std::vector<int>> Members(std::span<const int> node_of) {
  std::vector<std::vector<int>> nodes;
  for (size_t rank = 0; rank < node_of.size(); ++rank) {
    const auto node = static_cast<size_t>(node_of[rank]);
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node].push_back(static_cast<int>(rank));
  }
  for (const std::vector<int>& node : nodes) JANUS_CHECK(!node.empty(), "a node number is missing");
  return nodes;
}

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

template <class Keep>
std::vector<const Lane*> Where(const std::vector<Lane>& lanes, Keep&& keep) {
  std::vector<const Lane*> kept;
  for (const Lane& lane : lanes) {
    if (keep(lane)) kept.push_back(&lane);
  }
  return kept;
}

bool Has(const std::vector<int>& ranks, int rank) {
  return std::ranges::binary_search(ranks, rank);
}

}  // namespace

Lanes::Lanes(ExchangeMode mode, const ExchangeShape& shape) {
  const auto m = static_cast<size_t>(shape.m);
  const std::span<const int> nodes(shape.node_of);
  JANUS_CHECK(nodes.size() == m + static_cast<size_t>(shape.n), nodes.size(), shape.m, shape.n);
  expert_nodes_.assign(nodes.begin() + shape.m, nodes.end());
  const std::vector<std::vector<int>> attention = Members(nodes.first(m));
  const std::vector<std::vector<int>> experts = Members(nodes.subspan(m));
  for (size_t a = 0; a < attention.size(); ++a) {
    for (size_t e = 0; e < experts.size(); ++e) {
      const std::vector<int> ends = EndsTo(attention[a], e, experts.size(), mode);
      for (size_t l = 0; l < ends.size(); ++l) {
        Lane lane;
        lane.attention_end = ends[l];
        const size_t place = mode == ExchangeMode::kTwoPhaseSingle ? 0 : a * ends.size() + l;
        lane.expert_end = experts[e][place % experts[e].size()];
        lane.experts = experts[e];
        all_.push_back(std::move(lane));
      }
      // An end carries its own rows. The others take the lanes in turn.
      const std::span<Lane> lanes = std::span(all_).last(ends.size());
      for (size_t i = 0, turn = 0; i < attention[a].size(); ++i) {
        const int rank = attention[a][i];
        const auto own = std::ranges::find(lanes, rank, &Lane::attention_end);
        Lane& lane = own != lanes.end() ? *own : lanes[turn++ % lanes.size()];
        lane.attention.push_back(rank);
      }
    }
  }
}

std::vector<const Lane*> Lanes::EndingAtAttention(int rank) const {
  return Where(all_, [&](const Lane& lane) { return lane.attention_end == rank; });
}

std::vector<const Lane*> Lanes::EndingAtExpert(int rank) const {
  return Where(all_, [&](const Lane& lane) { return lane.expert_end == rank; });
}

std::vector<const Lane*> Lanes::OfAttention(int rank) const {
  return Where(all_, [&](const Lane& lane) { return Has(lane.attention, rank); });
}

std::vector<const Lane*> Lanes::OfExpert(int rank) const {
  return Where(all_, [&](const Lane& lane) { return Has(lane.experts, rank); });
}

}  // namespace janus::dataplane
