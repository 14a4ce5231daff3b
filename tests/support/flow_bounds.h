#pragma once

// Lower bounds for every scheduler, from maximum flows experts -> instances that share no code with
// the code under test. Slow and simple.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "common/aebs.h"

namespace janus {

// The least possible number of activated experts on the busiest instance: a flow of whole experts
// into instances of capacity L (augmenting paths by depth-first search), with a binary search for
// L.
class FlowOptimum {
 public:
  FlowOptimum(const LayerPlacement& placement, std::span<const uint16_t> activated)
      : placement_(placement), activated_(activated) {}

  int LargestLoad() {
    int low = 0;
    int high = static_cast<int>(activated_.size());
    while (low < high) {
      const int middle = (low + high) / 2;
      if (Fits(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

 private:
  bool Fits(int capacity) {
    on_.assign(static_cast<size_t>(placement_.instances), {});
    for (const uint16_t e : activated_) {
      tried_.assign(static_cast<size_t>(placement_.instances), false);
      if (!Push(e, capacity)) return false;
    }
    return true;
  }
  bool Push(uint16_t expert, int capacity) {
    for (int r = placement_.first[expert]; r < placement_.first[expert + 1]; ++r) {
      const size_t g = placement_.replicas[static_cast<size_t>(r)].instance;
      if (tried_[g]) continue;
      tried_[g] = true;
      if (static_cast<int>(on_[g].size()) < capacity) {
        on_[g].push_back(expert);
        return true;
      }
      for (uint16_t& other : on_[g]) {
        if (Push(other, capacity)) {
          other = expert;
          return true;
        }
      }
    }
    return false;
  }

  const LayerPlacement& placement_;
  std::span<const uint16_t> activated_;
  std::vector<std::vector<uint16_t>> on_;
  std::vector<bool> tried_;
};

// The least possible load of the busiest instance if every expert's weight may be divided over its
// replicas in any fractions. This is a linear program, solved by a flow of real numbers into
// instances of capacity L (shortest augmenting paths from instance to instance), with a bisection
// for L to 1e-4. Never above the true value. `taken`: the instances' initial loads, [n]; empty:
// none.
class FractionalOptimum {
 public:
  FractionalOptimum(const LayerPlacement& placement, std::span<const double> weights,
                    std::span<const double> taken = {})
      : placement_(placement),
        weights_(weights),
        n_(static_cast<size_t>(placement.instances)),
        taken_(taken.begin(), taken.end()) {
    taken_.resize(n_);
  }

  double LargestLoad() {
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    double low =
        (total + std::accumulate(taken_.begin(), taken_.end(), 0.0)) / static_cast<double>(n_);
    double high = total + *std::ranges::max_element(taken_);
    if (Fits(low)) return low;
    while (high - low > 1e-4 * low) {
      const double middle = (low + high) / 2;
      (Fits(middle) ? high : low) = middle;
    }
    return low;
  }

  // Whether this capacity suffices for all instances; share() then returns the shares.
  bool Fits(double capacity) {
    room_.clear();
    for (const double taken : taken_) room_.push_back(capacity - taken);
    if (*std::ranges::min_element(room_) < -kNothing * capacity) return false;
    share_.assign(placement_.replicas.size(), 0.0);
    for (size_t e = 0; e < weights_.size(); ++e) {
      for (double rest = weights_[e]; rest > kNothing * capacity;) {
        const double pushed = Push(e, rest);
        if (pushed <= 0) return false;
        rest -= pushed;
      }
    }
    return true;
  }
  double share(size_t replica) const { return share_[replica]; }

 private:
  static constexpr double kNothing = 1e-9;

  struct Hop {
    int from = -2;       // the previous instance; -1: none, -2: not reached
    size_t replica = 0;  // there, of the expert that it hands on
    size_t to = 0;       // the same expert's replica here
  };

  size_t InstanceOf(size_t replica) const { return placement_.replicas[replica].instance; }
  size_t First(size_t expert) const { return static_cast<size_t>(placement_.first[expert]); }

  // Pushes along one shortest path; returns how much of `rest` it placed.
  double Push(size_t expert, double rest) {
    std::vector<Hop> hops(n_);
    std::vector<size_t> queue;
    const auto reach = [&](size_t instance, Hop hop) {
      if (hops[instance].from != -2) return;
      hops[instance] = hop;
      queue.push_back(instance);
    };
    for (size_t r = First(expert); r < First(expert + 1); ++r) reach(InstanceOf(r), {-1, r, r});
    for (size_t head = 0; head < queue.size(); ++head) {
      const size_t g = queue[head];
      if (room_[g] > kNothing) return Apply(g, hops, rest);
      for (size_t f = 0; f < weights_.size(); ++f) {
        for (size_t r = First(f); r < First(f + 1); ++r) {
          if (InstanceOf(r) != g || share_[r] <= kNothing) continue;
          for (size_t q = First(f); q < First(f + 1); ++q) {
            reach(InstanceOf(q), {static_cast<int>(g), r, q});
          }
        }
      }
    }
    return 0;
  }

  double Apply(size_t end, const std::vector<Hop>& hops, double rest) {
    double amount = std::min(rest, room_[end]);
    size_t g = end;
    for (; hops[g].from >= 0; g = static_cast<size_t>(hops[g].from)) {
      amount = std::min(amount, share_[hops[g].replica]);
    }
    room_[end] -= amount;
    for (g = end; hops[g].from >= 0; g = static_cast<size_t>(hops[g].from)) {
      share_[hops[g].replica] -= amount;
      share_[hops[g].to] += amount;
    }
    share_[hops[g].to] += amount;
    return amount;
  }

  const LayerPlacement& placement_;
  const std::span<const double> weights_;
  const size_t n_;
  std::vector<double> taken_;  // [n]
  std::vector<double> room_;   // [n]
  std::vector<double> share_;  // [R]
};

// A lower bound of the busiest instance's cost if a share of x rows costs max(x, crossover): the
// larger of MegaScale-Infer's C_j with fractional allocations, and of the fewest activated experts
// times the crossover.
inline double RowCostBound(const LayerPlacement& placement, std::span<const int32_t> rows,
                           int crossover) {
  std::vector<double> weights;
  std::vector<uint16_t> activated;
  for (size_t e = 0; e < rows.size(); ++e) {
    weights.push_back(rows[e] == 0 ? 0 : std::max(rows[e], crossover));
    if (rows[e] > 0) activated.push_back(static_cast<uint16_t>(e));
  }
  return std::max(FractionalOptimum(placement, weights).LargestLoad(),
                  1.0 * FlowOptimum(placement, activated).LargestLoad() * crossover);
}

}  // namespace janus
