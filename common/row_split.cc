#include "common/row_split.h"

#include <algorithm>

#include "common/check.h"

namespace janus {
namespace {

constexpr int kSweeps = 4;        // repetitions of pouring
constexpr int kSearches = 24;     // limits that are tried
constexpr int kHops = 8;          // instances that rows are handed on through
constexpr int64_t kEnough = 512;  // a gain below cost/kEnough is not worth a search

}  // namespace

RowSplitWorkspace::RowSplitWorkspace(int max_experts, int max_instances, int max_replicas) {
  JANUS_CHECK(max_experts >= 0 && max_experts <= 0xFFFF, max_experts);
  JANUS_CHECK(max_instances >= 0 && max_instances < 0xFFFF, max_instances);
  JANUS_CHECK(max_replicas >= 0, max_replicas);
  const auto experts = static_cast<size_t>(max_experts);
  const auto instances = static_cast<size_t>(max_instances);
  const auto replicas = static_cast<size_t>(max_replicas);
  rows_.resize(experts + 1);
  share_.resize(replicas);
  cost_.resize(instances);
  saved_share_.resize(replicas);
  saved_cost_.resize(instances);
  order_.resize(instances);
  held_first_.resize(instances + 1);
  held_.resize(replicas);
  expert_.resize(replicas);
  seen_.resize(instances);
  at_.resize(experts);
  left_.resize(experts);
}

int32_t CountRows(std::span<const uint16_t> ids, int experts, RowSplitWorkspace& work) {
  work.experts_ = static_cast<size_t>(experts);
  JANUS_CHECK(work.experts_ < work.rows_.size(), experts);
  int32_t* const rows = work.rows_.data();
  std::fill_n(rows, work.experts_ + 1, 0);
  for (const uint16_t id : ids) ++rows[std::min<size_t>(id, work.experts_)];
  JANUS_CHECK(rows[work.experts_] == 0, experts);
  return experts == 0 ? 0 : *std::max_element(rows, rows + work.experts_);
}

class RowSplitter {
 public:
  RowSplitter(const LayerPlacement& placement, int crossover_rows, RowSplitWorkspace& work)
      : placement_(placement),
        work_(work),
        crossover_(crossover_rows),
        instances_(static_cast<size_t>(placement.instances)) {}

  void Run() {
    PlaceSingles();
    for (int sweep = 0; sweep <= kSweeps; ++sweep) {
      bool is_changed = false;
      for (size_t i = first_multi_; i < placement_.by_replicas.size(); ++i) {
        is_changed |= Pour(placement_.by_replicas[i]);
      }
      if (!is_changed || IsEnough()) break;
    }
    if (!IsEnough()) HandOnFromTheBusiest();
  }

 private:
  int64_t Cost(int64_t rows) const { return rows == 0 ? 0 : std::max(rows, crossover_); }
  int64_t& CostAt(size_t replica) { return work_.cost_[placement_.replicas[replica].instance]; }
  int64_t Busiest() const { return *std::ranges::max_element(work_.cost()); }
  bool IsEnough() const {
    const int64_t busiest = Busiest();
    return (busiest - least_) * kEnough <= busiest;
  }

  size_t First(size_t expert) const { return static_cast<size_t>(placement_.first[expert]); }

  void PlaceSingles() {
    std::fill_n(work_.share_.data(), work_.replicas_, 0);
    std::fill_n(work_.cost_.data(), instances_, int64_t{0});
    int64_t total = 0;
    first_multi_ = placement_.by_replicas.size();
    for (size_t i = 0; i < placement_.by_replicas.size(); ++i) {
      const size_t e = placement_.by_replicas[i];
      const size_t replicas = First(e + 1) - First(e);
      if (replicas > 1) first_multi_ = std::min(first_multi_, i);
      if (work_.rows_[e] == 0) continue;
      JANUS_CHECK(replicas > 0, e);
      total += Cost(work_.rows_[e]);
      if (replicas > 1) continue;
      work_.share_[First(e)] = work_.rows_[e];
      CostAt(First(e)) += Cost(work_.rows_[e]);
    }
    const auto n = static_cast<int64_t>(instances_);
    least_ = std::max(Busiest(), (total + n - 1) / n);
  }

  // How `rows` are spread over the first `count` of order_. Each gets `least`. The first `wet` of
  // them get more, up to the cost `level`, and the first `over` of those get one row more.
  struct Level {
    size_t count = 0;
    int64_t least = 0;
    size_t wet = 0;
    int64_t level = 0;
    int64_t over = 0;
  };

  Level LevelOver(size_t count, int64_t rows) {
    Level result{count, std::min(crossover_, rows / static_cast<int64_t>(count)), 1, 0, 0};
    const int64_t rest = rows - result.least * static_cast<int64_t>(count);
    int64_t sum = Base(0);
    while (result.wet < count && Base(result.wet) * static_cast<int64_t>(result.wet) - sum < rest) {
      sum += Base(result.wet++);
    }
    const auto wet = static_cast<int64_t>(result.wet);
    result.level = (rest + sum) / wet;
    result.over = (rest + sum) % wet;
    return result;
  }
  // The cost of the i-th instance of order_ with a share of K.
  int64_t Base(size_t i) { return CostAt(static_cast<size_t>(work_.order_[i])) + crossover_; }

  int32_t ShareOf(const Level& level, size_t i) {
    if (i >= level.wet) return static_cast<int32_t>(level.least);
    const int64_t more = level.level - Base(i) + (static_cast<int64_t>(i) < level.over ? 1 : 0);
    return static_cast<int32_t>(level.least + more);
  }

  // Takes the expert's rows off its instances and pours them anew. Returns whether a share has
  // changed.
  bool Pour(size_t expert) {
    const int64_t rows = work_.rows_[expert];
    if (rows == 0) return false;
    const size_t first = First(expert);
    const size_t replicas = First(expert + 1) - first;
    for (size_t i = 0; i < replicas; ++i) {
      const size_t r = first + i;
      CostAt(r) -= Cost(work_.share_[r]);
      size_t at = i;
      for (; at > 0 && CostAt(static_cast<size_t>(work_.order_[at - 1])) > CostAt(r); --at) {
        work_.order_[at] = work_.order_[at - 1];
      }
      work_.order_[at] = static_cast<int32_t>(r);
    }
    const size_t most =
        std::min(replicas, static_cast<size_t>((rows + crossover_ - 1) / crossover_));
    Level best;
    int64_t least_squares = 0;
    for (size_t count = 1; count <= most; ++count) {
      const Level level = LevelOver(count, rows);
      int64_t squares = 0;
      for (size_t i = 0; i < most; ++i) {
        int64_t cost = CostAt(static_cast<size_t>(work_.order_[i]));
        if (i < count) cost += Cost(ShareOf(level, i));
        squares += cost * cost;
      }
      if (count > 1 && squares >= least_squares) continue;
      least_squares = squares;
      best = level;
    }
    bool is_changed = false;
    for (size_t i = 0; i < replicas; ++i) {
      const auto r = static_cast<size_t>(work_.order_[i]);
      const int32_t share = i < best.count ? ShareOf(best, i) : 0;
      is_changed |= share != work_.share_[r];
      work_.share_[r] = share;
      CostAt(r) += Cost(share);
    }
    return is_changed;
  }

  // Lowers the busiest instance towards the bound: by half of the remaining distance at once; if
  // that fails, by half of that, and so on.
  void HandOnFromTheBusiest() {
    ListHeld();
    int64_t busiest = Busiest();
    int64_t step = (busiest - least_ + 1) / 2;
    for (int i = 0; i < kSearches && step * kEnough >= busiest; ++i) {
      std::copy_n(work_.share_.data(), work_.replicas_, work_.saved_share_.data());
      std::copy_n(work_.cost_.data(), instances_, work_.saved_cost_.data());
      if (BringAllTo(busiest - step)) {
        busiest = Busiest();
        step = (busiest - least_ + 1) / 2;
        continue;
      }
      std::copy_n(work_.saved_share_.data(), work_.replicas_, work_.share_.data());
      std::copy_n(work_.saved_cost_.data(), instances_, work_.cost_.data());
      step /= 2;
    }
  }

  void ListHeld() {
    std::fill_n(work_.held_first_.data(), instances_ + 1, 0);
    const auto for_each = [&](auto&& visit) {
      for (size_t i = first_multi_; i < placement_.by_replicas.size(); ++i) {
        const uint16_t e = placement_.by_replicas[i];
        if (work_.rows_[e] == 0) continue;
        for (size_t r = First(e); r < First(e + size_t{1}); ++r) visit(e, r);
      }
    };
    for_each([&](uint16_t e, size_t r) {
      work_.expert_[r] = e;
      ++work_.held_first_[placement_.replicas[r].instance];
    });
    int32_t before = 0;
    for (size_t g = 0; g <= instances_; ++g) {
      before += work_.held_first_[g];
      work_.held_first_[g] = before;
    }
    // Filled from the back, so that the end of an instance's list becomes its beginning.
    for_each([&](uint16_t, size_t r) {
      work_.held_[static_cast<size_t>(--work_.held_first_[placement_.replicas[r].instance])] =
          static_cast<int32_t>(r);
    });
  }

  bool BringAllTo(int64_t limit) {
    for (size_t g = 0; g < instances_; ++g) {
      if (work_.cost_[g] <= limit) continue;
      std::fill_n(work_.seen_.data(), instances_, uint8_t{0});
      if (!BringTo(g, limit, kHops, nullptr)) return false;
    }
    return true;
  }

  void Move(size_t from, size_t to, int64_t rows) {
    for (const auto& [replica, sign] : {std::pair(from, -1), std::pair(to, +1)}) {
      const int64_t had = work_.share_[replica];
      const int64_t has = had + sign * rows;
      CostAt(replica) += Cost(has) - Cost(had);
      work_.share_[replica] = static_cast<int32_t>(has);
    }
  }

  // Rows that a share of `share` rows hands to a share of `other` rows, on an instance with `room`
  // cost left. `need` would suffice. The rest is nothing or at least K rows, because fewer would
  // cost K too.
  int64_t RowsThatFit(int64_t share, int64_t other, int64_t need, int64_t room) const {
    if (room <= 0 || (other == 0 && room < crossover_)) return 0;
    const int64_t below = std::max(crossover_ - other, int64_t{0});  // cost nothing there
    const int64_t takes = other == 0 ? room : room + below;
    if (takes >= share && Cost(share) <= need) return share;
    const int64_t part = std::min({takes, share - crossover_, std::max(need, below)});
    if (part > 0 && (part >= need || other > 0 || part >= crossover_)) return part;
    return takes >= share ? share : 0;
  }

  // Whether instance g can be brought to `limit` by handing rows on to instances not seen yet.
  // Those stay within the limit, or are brought to it by handing on others. Each instance is tried
  // once per search. `received`: the expert that g just got rows of and must keep, so that the move
  // can be undone.
  bool BringTo(size_t g, int64_t limit, int hops, const uint16_t* received) {
    work_.seen_[g] = 1;
    const auto for_each_pair = [&](auto&& visit) {
      for (auto i = static_cast<size_t>(work_.held_first_[g]);
           i < static_cast<size_t>(work_.held_first_[g + 1]); ++i) {
        const auto r = static_cast<size_t>(work_.held_[i]);
        const uint16_t e = work_.expert_[r];
        if (received != nullptr && *received == e) continue;
        for (size_t q = First(e); q < First(e + size_t{1}); ++q) {
          if (work_.share_[r] == 0) break;
          if (work_.seen_[placement_.replicas[q].instance] != 0) continue;
          if (visit(r, q)) return true;
        }
      }
      return false;
    };
    const auto need = [&] { return work_.cost_[g] - limit; };
    if (for_each_pair([&](size_t r, size_t q) {
          const int64_t rows =
              RowsThatFit(work_.share_[r], work_.share_[q], need(), limit - CostAt(q));
          if (rows > 0) Move(r, q, rows);
          return need() <= 0;
        })) {
      return true;
    }
    if (hops == 0) return false;
    return for_each_pair([&](size_t r, size_t q) {
      const int64_t share = work_.share_[r];
      const int64_t below = std::max(crossover_ - work_.share_[q], int64_t{0});
      const int64_t part = std::max(need(), std::min(below, share - crossover_));
      for (const int64_t rows :
           {share - part >= crossover_ ? part : 0, Cost(share) >= need() ? share : 0}) {
        if (rows == 0 || work_.seen_[placement_.replicas[q].instance] != 0) continue;
        Move(r, q, rows);
        if (BringTo(placement_.replicas[q].instance, limit, hops - 1, &work_.expert_[r])) {
          return true;
        }
        Move(q, r, rows);
      }
      return false;
    });
  }

  const LayerPlacement& placement_;
  RowSplitWorkspace& work_;
  const int64_t crossover_;  // K
  const size_t instances_;
  size_t first_multi_ = 0;  // by_replicas from here on: two replicas or more
  int64_t least_ = 0;       // lower bound of the busiest instance's cost
};

void SplitRows(const LayerPlacement& placement, int crossover_rows, RowSplitWorkspace& work) {
  work.instances_ = static_cast<size_t>(placement.instances);
  work.replicas_ = placement.replicas.size();
  JANUS_CHECK(static_cast<size_t>(placement.experts) == work.experts_, placement.experts);
  JANUS_CHECK(work.instances_ <= work.cost_.size(), placement.instances);
  JANUS_CHECK(work.replicas_ <= work.share_.size(), work.replicas_);
  JANUS_CHECK(crossover_rows >= 1 && crossover_rows <= kMaxCrossoverRows, crossover_rows);
  if (work.instances_ > 0) RowSplitter(placement, crossover_rows, work).Run();
}

void RemapToShares(const LayerPlacement& placement, std::span<const uint16_t> ids,
                   RowSplitWorkspace& work, std::span<Replica> replicas) {
  JANUS_CHECK(ids.size() == replicas.size(), ids.size(), replicas.size());
  for (size_t e = 0; e < work.experts_; ++e) {
    work.at_[e] = placement.first[e] - 1;
    work.left_[e] = 0;
  }
  int32_t* const at = work.at_.data();
  int32_t* const left = work.left_.data();
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint16_t e = ids[i];
    while (left[e] == 0) left[e] = work.share_[static_cast<size_t>(++at[e])];
    --left[e];
    replicas[i] = placement.replicas[static_cast<size_t>(at[e])];
  }
}

Regime ScheduleRound(SchedulingPolicy policy, int crossover_rows, const LayerPlacement& placement,
                     std::span<const uint16_t> ids, int top_k, AebsWorkspace& aebs,
                     RowSplitWorkspace& split, std::span<Replica> replicas, uint64_t draw) {
  const auto rows = static_cast<int64_t>(ids.size()) / top_k;
  if (!MaySplitRows(policy, crossover_rows, rows) ||
      CountRows(ids, placement.experts, split) <= crossover_rows) {
    ScheduleActivatedExperts(policy, placement, ids, aebs, replicas, draw);
    return Regime::kActivatedExperts;
  }
  SplitRows(placement, crossover_rows, split);
  RemapToShares(placement, ids, split, replicas);
  return Regime::kRows;
}

}  // namespace janus
