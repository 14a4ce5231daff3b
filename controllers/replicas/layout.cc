#include "controllers/replicas/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "common/check.h"

namespace janus::controllers {
namespace {

// Experts, once per replica, by falling rows per replica, then by id.
std::vector<uint16_t> ReplicasByFallingRows(std::span<const double> rows,
                                            std::span<const int> replicas) {
  std::vector<uint16_t> order;
  for (size_t e = 0; e < replicas.size(); ++e) {
    order.insert(order.end(), static_cast<size_t>(replicas[e]), static_cast<uint16_t>(e));
  }
  std::ranges::stable_sort(
      order, [&](uint16_t a, uint16_t b) { return rows[a] * replicas[b] > rows[b] * replicas[a]; });
  return order;
}

bool Holds(const std::vector<uint16_t>& experts, uint16_t expert) {
  return std::ranges::find(experts, expert) != experts.end();
}

// Fills a layout replica by replica. A subclass defines the cost of a replica on an instance.
class Filler {
 public:
  explicit Filler(const ReplicaRoom& room)
      : room_(room),
        layout_(room.room.size()),
        pod_holds_(static_cast<size_t>(room.pods()) * static_cast<size_t>(room.experts)) {}
  virtual ~Filler() = default;

  // Prefers a pod without the expert, even if this needs a swap; otherwise takes any pod.
  void Place(uint16_t expert) {
    for (const bool new_pod : {true, false}) {
      if (AddWhereCheapest(expert, new_pod) || Swap(expert, new_pod)) return;
    }
  }

  Layout Take() { return std::move(layout_); }

 protected:
  virtual double Cost(uint16_t expert, int instance) const = 0;
  virtual void Added(uint16_t /*expert*/, int /*instance*/, int /*sign*/) {}

  static size_t At(int instance) { return static_cast<size_t>(instance); }
  int instances() const { return static_cast<int>(layout_.size()); }
  const Layout& layout() const { return layout_; }

 private:
  bool IsFull(int g) const { return static_cast<int>(layout_[At(g)].size()) >= room_.room[At(g)]; }
  int& PodCount(int g, uint16_t expert) {
    return pod_holds_[At(room_.pod(g)) * static_cast<size_t>(room_.experts) + expert];
  }
  bool PodHolds(int g, uint16_t expert) const {
    return pod_holds_[At(room_.pod(g)) * static_cast<size_t>(room_.experts) + expert] > 0;
  }
  void Add(uint16_t expert, int g) {
    layout_[At(g)].push_back(expert);
    ++PodCount(g, expert);
    Added(expert, g, +1);
  }
  void Remove(uint16_t expert, int g) {
    std::erase(layout_[At(g)], expert);
    --PodCount(g, expert);
    Added(expert, g, -1);
  }

  bool AddWhereCheapest(uint16_t expert, bool new_pod) {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int g = 0; g < instances(); ++g) {
      if (IsFull(g) || !MayTake(g, expert, new_pod)) continue;
      if (const double cost = Cost(expert, g); cost < least) {
        least = cost;
        best = g;
      }
    }
    if (best >= 0) Add(expert, best);
    return best >= 0;
  }

  bool MayTake(int g, uint16_t expert, bool new_pod) const {
    return !Holds(layout_[At(g)], expert) && !(new_pod && PodHolds(g, expert));
  }

  // All instances that may take the expert are full. One of them, g, hands an expert j to an
  // instance h with room, and takes the new expert. A replica that cannot be placed even so is
  // dropped.
  bool Swap(uint16_t expert, bool new_pod) {
    int from = -1;
    int to = -1;
    uint16_t handed = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int g = 0; g < instances(); ++g) {
      if (!MayTake(g, expert, new_pod)) continue;
      for (const uint16_t j : layout_[At(g)]) {
        for (int h = 0; h < instances(); ++h) {
          const bool stays_in_pod = room_.pod(g) == room_.pod(h);
          if (IsFull(h) || !MayTake(h, j, new_pod && !stays_in_pod)) continue;
          const double cost = Cost(expert, g) + Cost(j, h) - Cost(j, g);
          if (cost >= least) continue;
          least = cost;
          from = g;
          to = h;
          handed = j;
        }
      }
    }
    if (from < 0) return false;
    Remove(handed, from);
    Add(handed, to);
    Add(expert, from);
    return true;
  }

  const ReplicaRoom& room_;
  Layout layout_;
  std::vector<int> pod_holds_;  // [pods, E] replicas of an expert in each pod
};

class CoactivationFiller final : public Filler {
 public:
  CoactivationFiller(const ReplicaRoom& room, const LayerActivations& activations)
      : Filler(room), activations_(activations) {}

 protected:
  double Cost(uint16_t expert, int g) const override {
    double sum = 0;
    const size_t row = expert * static_cast<size_t>(activations_.experts);
    for (const uint16_t other : layout()[At(g)]) sum += activations_.together[row + other];
    return sum;
  }

 private:
  const LayerActivations& activations_;
};

class RowsFiller final : public Filler {
 public:
  RowsFiller(const ReplicaRoom& room, const LayerActivations& activations,
             std::span<const int> replicas)
      : Filler(room),
        activations_(activations),
        replicas_(replicas),
        rows_(room.room.size(), 0.0) {}

 protected:
  double Cost(uint16_t /*expert*/, int g) const override { return rows_[At(g)]; }
  void Added(uint16_t expert, int g, int sign) override {
    rows_[At(g)] += sign * activations_.rows[expert] / replicas_[expert];
  }

 private:
  const LayerActivations& activations_;
  const std::span<const int> replicas_;
  std::vector<double> rows_;
};

}  // namespace

int ReplicaRoom::pods() const {
  if (pod_of_instance.empty()) return static_cast<int>(room.size());
  return 1 + *std::ranges::max_element(pod_of_instance);
}

int ReplicaRoom::total() const {
  return std::accumulate(room.begin(), room.end(), 0);
}

std::vector<int> ReplicateByRows(const ReplicaRoom& room, std::span<const double> rows) {
  const int instances = static_cast<int>(room.room.size());
  int left = room.total() - room.experts;
  JANUS_CHECK(left >= 0, room.total(), room.experts);
  std::vector<int> replicas(static_cast<size_t>(room.experts), 1);
  // Entries (rows per replica, -id), taken from the largest down.
  std::set<std::pair<double, int>> heap;
  for (int e = 0; e < room.experts; ++e) heap.emplace(rows[static_cast<size_t>(e)], -e);
  while (left > 0 && !heap.empty()) {
    const auto top = std::prev(heap.end());
    const int e = -top->second;
    heap.erase(top);
    int& count = replicas[static_cast<size_t>(e)];
    if (count >= instances) continue;
    ++count;
    --left;
    heap.emplace(rows[static_cast<size_t>(e)] / count, -e);
  }
  return replicas;
}

Layout PlaceByCoactivation(const ReplicaRoom& room, const LayerActivations& activations,
                           std::span<const int> replicas) {
  CoactivationFiller filler(room, activations);
  for (const uint16_t e : ReplicasByFallingRows(activations.rows, replicas)) filler.Place(e);
  return filler.Take();
}

Layout PlaceByRows(const ReplicaRoom& room, const LayerActivations& activations,
                   std::span<const int> replicas) {
  RowsFiller filler(room, activations, replicas);
  for (const uint16_t e : ReplicasByFallingRows(activations.rows, replicas)) filler.Place(e);
  return filler.Take();
}

LayoutJudge::LayoutJudge(const ReplicaRoom& room, std::span<const std::vector<uint16_t>> steps,
                         SchedulingPolicy scheduling)
    : room_(room),
      steps_(steps),
      scheduling_(scheduling),
      work_(room.experts, static_cast<int>(room.room.size())),
      busiest_steps_(room.room.size()),
      count_(static_cast<size_t>(room.experts)) {
  least_after_.resize(steps.size() + 1);
  for (size_t s = steps.size(); s-- > 0;) {
    const size_t even = (steps[s].size() + room.room.size() - 1) / room.room.size();
    least_after_[s] = least_after_[s + 1] + static_cast<double>(even);
  }
  placement_.experts = room.experts;
  placement_.instances = static_cast<int>(room.room.size());
  placement_.mask_words = (placement_.instances + 63) / 64;
}

void LayoutJudge::SetPlacement(const Layout& layout) {
  const auto experts = static_cast<size_t>(room_.experts);
  const auto words = static_cast<size_t>(placement_.mask_words);
  std::ranges::fill(count_, 0);
  for (const auto& held : layout) {
    for (const uint16_t e : held) ++count_[e];
  }
  placement_.first.assign(experts + 1, 0);
  int most = 0;
  for (size_t e = 0; e < experts; ++e) {
    placement_.first[e + 1] = placement_.first[e] + count_[e];
    most = std::max(most, count_[e]);
  }
  placement_.by_replicas.clear();
  for (int replicas = 0; replicas <= most; ++replicas) {
    for (size_t e = 0; e < experts; ++e) {
      if (count_[e] == replicas) placement_.by_replicas.push_back(static_cast<uint16_t>(e));
    }
  }
  placement_.replicas.resize(static_cast<size_t>(placement_.first[experts]));
  placement_.hosts.assign(experts * words, 0);
  std::ranges::fill(count_, 0);
  for (size_t g = 0; g < layout.size(); ++g) {
    for (size_t slot = 0; slot < layout[g].size(); ++slot) {
      const uint16_t e = layout[g][slot];
      placement_.replicas[static_cast<size_t>(placement_.first[e] + count_[e]++)] = {
          static_cast<uint16_t>(g), static_cast<uint16_t>(slot)};
      placement_.hosts[e * words + g / 64] |= uint64_t{1} << (g % 64);
    }
  }
}

LayoutValue LayoutJudge::Judge(const Layout& layout, double give_up_above) {
  SetPlacement(layout);
  std::ranges::fill(busiest_steps_, 0);
  LayoutValue value;
  const auto steps = static_cast<double>(std::max<size_t>(steps_.size(), 1));
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (value.largest + least_after_[s] > give_up_above * steps) {
      value.largest = std::numeric_limits<double>::infinity();
      return value;
    }
    CollectActivated(steps_[s], room_.experts, work_);
    Assign(scheduling_, placement_, s, work_);  // each step has another draw
    int largest = 0;
    int smallest = std::numeric_limits<int>::max();
    double squares = 0;
    for (const int32_t load : work_.load()) {
      largest = std::max(largest, load);
      smallest = std::min(smallest, load);
      squares += static_cast<double>(load) * load;
    }
    for (size_t g = 0; g < busiest_steps_.size(); ++g) {
      if (work_.load()[g] == largest) ++busiest_steps_[g];
    }
    value.largest += largest;
    value.gap += largest - smallest;
    value.squares += squares;
  }
  value.largest /= steps;
  value.gap /= steps;
  value.squares /= steps;
  return value;
}

}  // namespace janus::controllers
