#pragma once

// The best split of a round's rows (common/row_split.h) by branch and bound, for the gap that the
// bounds of flow_bounds.h leave. Slow; for rounds of some 64 experts.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "tests/support/flow_bounds.h"

namespace janus {

// Decides for each replica in turn whether it gets rows. A replica with rows costs K and takes K
// rows for that. An undecided one costs its share of max(rows, K). So a flow of real numbers, as at
// the root, tells whether a node can contain a better result than the best known one.
class SplitOptimum {
 public:
  SplitOptimum(const LayerPlacement& placement, std::span<const int32_t> rows, int crossover)
      : placement_(placement), rows_(rows.begin(), rows.end()), crossover_(crossover) {}

  // The least cost of the busiest instance, to 0.1 %; `known`: the cost of some split. Negative:
  // gave up after so many nodes.
  double LargestCost(double known, int max_nodes) {
    best_ = known;
    nodes_left_ = max_nodes;
    std::vector<State> states(placement_.replicas.size(), State::kOpen);
    Visit(states);
    return nodes_left_ < 0 ? -1 : best_;
  }

 private:
  enum class State : uint8_t { kOpen, kUsed, kUnused };

  size_t First(size_t expert) const { return static_cast<size_t>(placement_.first[expert]); }

  void Visit(std::vector<State>& states) {
    if (--nodes_left_ < 0) return;
    // Experts as weights over the replicas that may have rows.
    const auto n = static_cast<size_t>(placement_.instances);
    std::vector<double> taken(n);
    std::vector<double> weights(rows_.size());
    LayerPlacement open = placement_;
    open.replicas.clear();
    std::vector<size_t> original;
    for (size_t e = 0; e < rows_.size(); ++e) {
      open.first[e] = static_cast<int32_t>(open.replicas.size());
      int used = 0;
      for (size_t r = First(e); r < First(e + 1); ++r) {
        if (states[r] == State::kUnused || rows_[e] == 0) continue;
        open.replicas.push_back(placement_.replicas[r]);
        original.push_back(r);
        if (states[r] != State::kUsed) continue;
        ++used;
        taken[placement_.replicas[r].instance] += crossover_;
      }
      const double paid = static_cast<double>(used) * crossover_;
      weights[e] = rows_[e] == 0 ? 0 : std::max(std::max<double>(rows_[e], crossover_) - paid, 0.0);
    }
    open.first[rows_.size()] = static_cast<int32_t>(open.replicas.size());
    FractionalOptimum flow(open, weights, taken);
    if (!flow.Fits(best_ * 0.999)) return;
    // The true cost of the flow's shares, and the replica with the largest error.
    const auto judge = [&] {
      const double nothing = 1e-6 * best_;
      std::vector<double> cost(n);
      size_t worst = states.size();
      double most = nothing;
      for (size_t i = 0; i < original.size(); ++i) {
        const size_t r = original[i];
        const double claimed = flow.share(i) + (states[r] == State::kUsed ? crossover_ : 0);
        const double truth = claimed <= nothing ? 0 : std::max(claimed, crossover_);
        cost[placement_.replicas[r].instance] += truth;
        if (truth - claimed <= most) continue;
        most = truth - claimed;
        worst = r;
      }
      best_ = std::min(best_, *std::ranges::max_element(cost));
      return worst;
    };
    size_t worst = judge();
    if (worst == states.size()) {
      // It is feasible. Perhaps less is too.
      flow.Fits(flow.LargestLoad() * 1.0002);
      worst = judge();
      if (worst == states.size()) return;
    }
    for (const State state : {State::kUsed, State::kUnused}) {
      states[worst] = state;
      Visit(states);
    }
    states[worst] = State::kOpen;
  }

  const LayerPlacement& placement_;
  const std::vector<int32_t> rows_;
  const double crossover_;
  double best_ = 0;
  int nodes_left_ = 0;
};

}  // namespace janus
