#include "controllers/exchange/counts.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "common/check.h"
#include "common/exchange_lanes.h"
#include "common/exchange_size.h"

namespace janus::controllers {
namespace {

// Counts may be expected values, so these take fractions.
double Aligned(double bytes) {
  constexpr auto kAlignment = static_cast<double>(exchange_size::Aligned(1));
  return std::ceil(bytes / kAlignment) * kAlignment;
}
double ChoicesOf(const RoundRows& round) {
  return static_cast<double>(ChoiceBytes(static_cast<size_t>(std::ceil(round.rows * round.top_k))));
}

// For one attention instance within a message to or from an expert node of `instances`.
double SectionsBytes(const RoundRows& round, bool is_out, double rows_bytes, double instances,
                     double n) {
  if (is_out) return exchange_size::kSectionHead + Aligned(rows_bytes);
  // With sums one section has those of the node, and the other instances' are empty.
  const double payloads = round.sum_bytes > 0 ? Aligned(RepliesBytes(round, instances, n))
                                              : instances * Aligned(RepliesBytes(round, 1, n));
  return instances * exchange_size::kSectionHead + payloads;
}

// The lanes of LanesBetween for mode TwoPhaseParallel, counted without building them.
//
// Lanes of an attention node with `size` instances to expert node `e` of `nodes`.
int LanesOfPair(int size, int nodes, int e) {
  return nodes >= size ? 1 : size / nodes + (e < size % nodes ? 1 : 0);
}
// Instances that lane `l` of these carries.
int CarriedBy(int size, int lanes, int l) {
  return size / lanes + (l < size % lanes ? 1 : 0);
}

int MostCarried(int size, int nodes) {
  return CarriedBy(size, LanesOfPair(size, nodes, nodes - 1), 0);
}

void AddParallelAttention(int size, const FullNodes& nodes, EndLoads& ends) {
  const int expert_nodes = nodes.ExpertNodes();
  const bool has_last = nodes.LastExperts() < nodes.experts_per_node;
  const auto add = [&](int lanes, int carried, bool ends_at_last, int of_last) {
    const int last = ends_at_last && has_last ? of_last : 0;
    ends.Add({lanes, carried - last, last});
  };
  if (expert_nodes >= size) {
    // Expert node e is reached from instance e % size. The last one's is among the busiest.
    for (const int instance : {0, (expert_nodes - 1) % size}) {
      const int lanes = (expert_nodes - 1 - instance) / size + 1;
      add(lanes, lanes * size, (expert_nodes - 1) % size == instance, size);
    }
    return;
  }
  // Each instance ends one lane. Pairs with fewer lanes have fuller ones.
  for (const int e : {0, std::min(size % expert_nodes, expert_nodes - 1), expert_nodes - 1}) {
    const int carried = CarriedBy(size, LanesOfPair(size, expert_nodes, e), 0);
    add(1, carried, e == expert_nodes - 1, carried);
  }
}

void AddParallelExperts(int e, const FullNodes& nodes, EndLoads& ends) {
  const int expert_nodes = nodes.ExpertNodes();
  const bool is_last = e == expert_nodes - 1;
  const int size = is_last ? nodes.LastExperts() : nodes.experts_per_node;
  const bool is_small = size < nodes.experts_per_node;
  const int of_full = nodes.attention_per_node;
  const int full = nodes.m / of_full;
  const int of_last = nodes.m % of_full;  // 0: all attention nodes are full
  const int lanes = LanesOfPair(of_full, expert_nodes, e);
  const int lanes_of_last = of_last == 0 ? 0 : LanesOfPair(of_last, expert_nodes, e);
  // Lanes go to the instances of the node in turn, by their number over all attention nodes.
  const auto add = [&](int instance) {
    EndLoad end;
    int carried = 0;
    for (int place = instance; place < full * lanes; place += size) {
      ++end.lanes;
      carried += CarriedBy(of_full, lanes, place % lanes);
    }
    for (int l = 0; l < lanes_of_last; ++l) {
      if ((full * lanes_of_last + l) % size != instance) continue;
      ++end.lanes;
      carried += CarriedBy(of_last, lanes_of_last, l);
    }
    (is_small ? end.carried_last : end.carried) = carried;
    ends.Add(end);
  };
  if (of_full % lanes != 0) {
    for (int instance = 0; instance < std::min(size, full * lanes); ++instance) add(instance);
  } else {
    add(0);  // the full nodes' lanes carry as many
  }
  for (int l = 0; l < std::min(lanes_of_last, size); ++l) {
    add((full * lanes_of_last + l) % size);
  }
}

}  // namespace

void EndLoads::Add(const EndLoad& load) {
  // A last node needs no more of a row than a full one.
  const auto exceeds = [](const EndLoad& a, const EndLoad& b) {
    return a.lanes >= b.lanes && a.carried >= b.carried &&
           a.carried + a.carried_last >= b.carried + b.carried_last;
  };
  size_t kept = 0;
  for (size_t i = 0; i < size_; ++i) {
    if (exceeds(loads_[i], load)) return;
    if (!exceeds(load, loads_[i])) loads_[kept++] = loads_[i];
  }
  size_ = kept;
  JANUS_CHECK(size_ < loads_.size(), "more kinds of ends than there can be");
  loads_[size_++] = load;
}

double NeededShare(double experts, double top_k, double held) {
  double none = 1;
  for (int k = 0; k < top_k; ++k) none *= std::max(experts - held - k, 0.0) / (experts - k);
  return 1 - none;
}

double RowsBytes(const RoundRows& round, GateSide gate, double needed) {
  const double all = round.rows * round.row_bytes;
  if (gate == GateSide::kExperts) return all;
  return Aligned(all * needed) + ChoicesOf(round);
}

double RepliesBytes(const RoundRows& round, double instances, double n) {
  const double share = instances / n;
  const double count = round.rows * round.top_k * share;
  const double refs = Aligned(count * exchange_size::kContributionRef);
  if (round.sum_bytes == 0) return refs + count * round.row_bytes;
  const double summed = NeededShare(round.experts, round.top_k, round.experts * share);
  return refs + round.rows * summed * round.sum_bytes;
}

std::vector<ExchangeMessage> MessagesOf(ExchangeMode mode, const ExchangeRound& round,
                                        bool is_out) {
  if (round.in_gpus) {
    ExchangeRound here = round;
    here.in_gpus = false;
    here.row_bytes = 0;
    return MessagesOf(mode, here, is_out);
  }
  const auto rows = [&](const std::vector<double>& needed, int by) {
    return needed.empty() ? RowsBytes(round, GateSide::kExperts, 1)
                          : RowsBytes(round, GateSide::kAttention, needed[static_cast<size_t>(by)]);
  };
  std::vector<ExchangeMessage> out;
  if (mode == ExchangeMode::kDirect) {
    for (int a = 0; a < round.m(); ++a) {
      for (int e = 0; e < round.n(); ++e) {
        const double one =
            is_out ? rows(round.needed_by_expert, e) : RepliesBytes(round, 1, round.n());
        out.push_back({a, e, exchange_size::kMessageHeader + one});
      }
    }
    return out;
  }
  for (const ExchangeLane& lane : LanesBetween(mode, round.attention_nodes, round.expert_nodes)) {
    const int node = round.expert_nodes[static_cast<size_t>(lane.expert_end)];
    const double of_one =
        SectionsBytes(round, is_out, is_out ? rows(round.needed_by_node, node) : 0,
                      static_cast<double>(lane.experts.size()), round.n());
    out.push_back(
        {lane.attention_end, lane.expert_end,
         exchange_size::kMessageHeader + static_cast<double>(lane.attention.size()) * of_one});
  }
  return out;
}

std::vector<ExchangeMessage> ReadsOf(ExchangeMode mode, const ExchangeRound& round, bool is_out) {
  std::vector<ExchangeMessage> out;
  if (!round.in_gpus) return out;
  const double rows = round.rows * round.row_bytes;
  if (is_out && mode != ExchangeMode::kDirect) {
    for (const ExchangeLane& lane : LanesBetween(mode, round.attention_nodes, round.expert_nodes)) {
      for (const int a : lane.attention) out.push_back({a, lane.expert_end, rows});
    }
    return out;
  }
  const double one = is_out ? rows : rows * round.top_k / round.n();
  for (int a = 0; a < round.m(); ++a) {
    for (int e = 0; e < round.n(); ++e) out.push_back({a, e, one});
  }
  return out;
}

BusiestEnds BusiestEndsOf(ExchangeMode mode, const FullNodes& nodes) {
  BusiestEnds out;
  const int expert_nodes = nodes.ExpertNodes();
  if (mode == ExchangeMode::kDirect) {
    out.attention.Add({nodes.n, nodes.n, 0});
    out.experts.Add({nodes.m, nodes.m, 0});
    return out;
  }
  const int of_full = std::min(nodes.attention_per_node, nodes.m);
  const int of_last = nodes.m % of_full == 0 ? of_full : nodes.m % of_full;
  // The last expert node has the fewest lanes from a node.
  out.gathered =
      mode == ExchangeMode::kTwoPhaseSingle
          ? of_full
          : std::max(MostCarried(of_full, expert_nodes), MostCarried(of_last, expert_nodes));
  if (mode == ExchangeMode::kTwoPhaseSingle) {
    const bool is_small = nodes.LastExperts() < nodes.experts_per_node;
    const int last = is_small ? of_full : 0;
    out.attention.Add({expert_nodes, expert_nodes * of_full - last, last});
    const int attention_nodes = nodes.AttentionNodes();
    if (expert_nodes > 1 || !is_small) out.experts.Add({attention_nodes, nodes.m, 0});
    if (is_small) out.experts.Add({attention_nodes, 0, nodes.m});
    return out;
  }
  AddParallelAttention(of_full, nodes, out.attention);
  if (of_last != of_full) AddParallelAttention(of_last, nodes, out.attention);
  // Between these the lanes of all pairs of nodes are as many.
  FullNodes filled = nodes;
  filled.attention_per_node = of_full;
  int before = -1;
  for (const int e : {0, std::min(of_last % expert_nodes, of_full % expert_nodes),
                      std::max(of_last % expert_nodes, of_full % expert_nodes), expert_nodes - 1}) {
    if (e > before) AddParallelExperts(e, filled, out.experts);
    before = std::max(before, e);
  }
  return out;
}

BusiestCounts CountsOf(ExchangeMode mode, const FullNodes& nodes, const BusiestEnds& ends,
                       const FullRound& round, bool is_out) {
  using exchange_size::kMessageHeader;
  BusiestCounts out;
  const double n = nodes.n;
  const auto busiest = [&](const EndLoads& of, double section, double section_of_last,
                           double& messages, double& bytes) {
    for (const EndLoad& end : of) {
      messages = std::max(messages, static_cast<double>(end.lanes));
      bytes = std::max(bytes, end.lanes * static_cast<double>(kMessageHeader) +
                                  end.carried * section + end.carried_last * section_of_last);
    }
  };
  if (mode == ExchangeMode::kDirect) {
    const double one =
        is_out ? RowsBytes(round, round.gate, round.needed_by_expert) : RepliesBytes(round, 1, n);
    busiest(ends.attention, one, one, out.attention_messages, out.attention_bytes);
    busiest(ends.experts, one, one, out.expert_messages, out.expert_bytes);
    return out;
  }
  const auto section = [&](double needed, int size) {
    return SectionsBytes(round, is_out, is_out ? RowsBytes(round, round.gate, needed) : 0, size, n);
  };
  const int of_last = nodes.LastExperts();
  const double full = section(round.needed_by_node, nodes.experts_per_node);
  const double last = section(round.needed_by_last, of_last);
  busiest(ends.attention, full, last, out.attention_messages, out.attention_bytes);
  busiest(ends.experts, full, last, out.expert_messages, out.expert_bytes);
  const double gathered = ends.gathered;
  if (is_out) {
    // Each mate hands over all its rows once. The node's instances read all that has come.
    const double all = RowsBytes(round, round.gate, 1);
    out.attention_handed = (gathered - 1) * all;
    if (nodes.experts_per_node > 1 && n > 1) {
      out.expert_handed = nodes.m * (nodes.n < nodes.experts_per_node ? last : full);
    }
    return out;
  }
  out.attention_handed = out.attention_bytes * (gathered - 1) / gathered;
  const double of_one = Aligned(RepliesBytes(round, 1, n));
  for (const EndLoad& end : ends.experts) {
    out.expert_handed = std::max(
        out.expert_handed,
        of_one * (end.carried * (nodes.experts_per_node - 1) + end.carried_last * (of_last - 1)));
  }
  return out;
}

BusiestCounts LeastCountsOf(ExchangeMode mode, const FullNodes& nodes, int fewest,
                            const FullRound& round, double all_rows, bool is_out) {
  BusiestCounts out;
  // Of all rows together: what one expert instance and what one node of `instances` gets or sends,
  // without heads and alignment.
  const auto of_rows = [&](double needed) {
    return all_rows * round.row_bytes * (round.gate == GateSide::kAttention ? needed : 1);
  };
  const auto replies = [&](double instances) {
    const double share = instances / nodes.n;
    const double refs = round.top_k * share * exchange_size::kContributionRef;
    if (round.sum_bytes == 0) return all_rows * (refs + round.top_k * share * round.row_bytes);
    const double summed = NeededShare(round.experts, round.top_k, round.experts * share);
    return all_rows * (refs + summed * round.sum_bytes);
  };
  const double m = nodes.m;
  if (mode == ExchangeMode::kDirect) {
    const double one = is_out ? of_rows(round.needed_by_expert) : replies(1);
    out.attention_messages = nodes.n;
    out.expert_messages = fewest;
    out.attention_bytes = nodes.n * one / m;
    out.expert_bytes = one;
    return out;
  }
  FullNodes smallest = nodes;
  smallest.m = fewest;
  const double attention_nodes = smallest.AttentionNodes();
  const int expert_nodes = nodes.ExpertNodes();
  const int in_node = std::min(nodes.experts_per_node, nodes.n);
  const int in_last = nodes.LastExperts();
  const bool is_single = mode == ExchangeMode::kTwoPhaseSingle;
  const double into_node =
      is_out
          ? of_rows(in_node == nodes.experts_per_node ? round.needed_by_node : round.needed_by_last)
          : replies(in_node);
  const double into_last = expert_nodes == 1 ? into_node
                           : is_out          ? of_rows(round.needed_by_last)
                                             : replies(in_last);
  // The mean over a role's instances, or ends, is no more than the most.
  const double ends = is_single ? 1 : in_node;
  out.attention_messages =
      is_single ? expert_nodes
                : std::max(1.0, static_cast<double>(expert_nodes) / nodes.attention_per_node);
  out.expert_messages = attention_nodes / ends;
  out.attention_bytes =
      ((expert_nodes - 1) * into_node + into_last) / (is_single ? nodes.AttentionNodes() : m);
  out.expert_bytes = into_node / ends;
  if (in_node > 1) {
    out.expert_handed = is_out ? into_node : replies(1) * (in_node - 1) / ends;
  }
  return out;
}

}  // namespace janus::controllers
