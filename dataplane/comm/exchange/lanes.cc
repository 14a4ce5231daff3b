#include "dataplane/comm/exchange/lanes.h"

#include <algorithm>
#include <span>

namespace janus::dataplane {
namespace {

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
  all_ = LanesBetween(mode, nodes.first(m), nodes.subspan(m));
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
