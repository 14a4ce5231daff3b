#include "operator/reconcile/placement/rebalance.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "controllers/replicas/place.h"
#include "operator/reconcile/epochs/member_name.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/placement/search_placement.h"

namespace janus::control {
namespace {

using Memory = PlacementMemory;

class Rebalancing {
 public:
  Rebalancing(const ServiceObserved& seen, const Rollout& rollout)
      : seen_(seen),
        front_(rollout.sides.front),
        desired_(rollout.desired),
        has_old_side_(rollout.sides.old.has_value()),
        spec_(rollout.desired.service.spec.roles.experts.placement) {}

  std::optional<TakenRounds> Run() {
    const TopologyRecord* const committed = front_.committed();
    if (committed == nullptr || !desired_.planned || !desired_.acts()) return std::nullopt;
    if (spec_.policy == PlacementPolicy::kRoundRobin || ExpertsOf(*committed).size() < 2) {
      return std::nullopt;
    }
    const WatchSeen& watch = front_.epochs().watch;
    if (watch.statistics == nullptr || watch.epoch != committed->epoch) return std::nullopt;
    if (watch.statistics->routing.rounds.empty()) return std::nullopt;
    const std::shared_ptr<const Memory>& before = seen_.remembered.placement;
    const bool is_same = before != nullptr && before->topology == front_.topology->name();
    if (is_same && before->heard && *before->heard >= watch.answered) return std::nullopt;

    Memory next = is_same ? *before : Memory();
    next.topology = front_.topology->name();
    Hear(watch, next);
    if (IsDue(next) && IsQuiet(*committed)) Search(*committed, next);
    PlacementRecord record = RecordOf(*committed, next);
    return TakenRounds{std::make_shared<const Memory>(std::move(next)), std::move(record)};
  }

 private:
  static double SecondsOf(MonotonicTime time) { return Seconds(time.time_since_epoch()).count(); }

  void Hear(const WatchSeen& watch, Memory& next) const {
    controllers::WindowBounds bounds;
    bounds.age_seconds = spec_.window_seconds.value_or(spec_.rebalance_interval_seconds);
    controllers::AddRounds(watch.statistics->routing.rounds, SecondsOf(watch.answered), bounds,
                           next.rounds);
    const auto first =
        std::ranges::find_if(watch.statistics->instances, [](const InstanceStatistics& one) {
          return one.role == Role::kExperts && one.rank.value == 0;
        });
    if (first != watch.statistics->instances.end()) {
      const uint64_t rounds =
          first->rounds / static_cast<uint64_t>(std::max(desired_.planned->model.moe_layers(), 1));
      // A smaller number is of another process.
      if (next.heard && rounds >= next.layer_rounds_heard) {
        next.layer_rounds_per_second =
            static_cast<double>(rounds - next.layer_rounds_heard) /
            std::max(Seconds(watch.answered - *next.heard).count(), 1e-3);
      }
      next.layer_rounds_heard = rounds;
    }
    if (!next.first) next.first = watch.answered;
    next.heard = watch.answered;
  }

  bool IsDue(const Memory& next) const {
    const Seconds interval(spec_.rebalance_interval_seconds);
    if (next.searched) return seen_.now >= At(*next.searched, interval);
    return seen_.now >= At(*next.first, std::min(interval, Seconds(kFirstSearch)));
  }

  bool IsQuiet(const TopologyRecord& committed) const {
    const EpochsSeen& epochs = front_.epochs();
    return !desired_.service.spec.paused && !has_old_side_ && front_.proposed() == nullptr &&
           epochs.HasTold(committed.epoch) && epochs.WhyLost(committed.epoch).empty() &&
           AliveOf(committed, seen_.alive).size() == committed.instances.size();
  }

  void Search(const TopologyRecord& committed, Memory& next) const {
    const janus::Result<Placement> current = PlacementOf(committed);
    if (!current.ok()) return;
    // Another number of slots comes with an epoch of its own.
    const int slots =
        desired_.planned->plan.slots_per_instance + desired_.planned->plan.spare_slots;
    if (std::ranges::any_of(current->slots_of_instance, [&](int had) { return had != slots; })) {
      return;
    }
    std::vector<InstanceId> experts;
    std::vector<std::string> pods;
    for (const TopologyInstance& one : committed.instances) {
      if (one.role != Role::kExperts) continue;
      experts.push_back(IdOf(one));
      pods.push_back(one.pod_uid);
    }
    janus::Result<PlacementFound> found =
        SearchPlacement(next, *desired_.planned, spec_.survivable, *current,
                        controllers::PodNumbers(pods), Seconds(spec_.rebalance_interval_seconds));
    if (found.status().code() == StatusCode::kUnavailable) return;  // more rounds come
    next.searched = seen_.now;
    if (!found.ok()) {
      next.last = PlacementSearch{seen_.wall, 0, 0, 0, found.status().message()};
      return;
    }
    next.last = std::move(found->search);
    next.last->time = seen_.wall;
    next.placed.reset();
    if (next.last->replicas_to_load == 0) return;
    next.placed = std::make_shared<const PlacedExperts>(PlacedOn(found->placement, experts));
  }

  PlacementRecord RecordOf(const TopologyRecord& committed, const Memory& memory) const {
    PlacementRecord out;
    out.time = memory.last ? memory.last->time : seen_.wall;
    if (memory.last) {
      out.message = memory.last->message;
      out.busiest_before = memory.last->busiest_before;
      out.busiest_after = memory.last->busiest_after;
    }
    const janus::Result<Placement> placement = PlacementOf(committed);
    if (!placement.ok()) return out;
    for (const TopologyInstance& one : committed.instances) {
      if (one.role == Role::kExperts) out.instances.push_back(MemberName(one));
    }
    out.rounds = memory.rounds;
    const auto experts = static_cast<size_t>(desired_.planned->model.moe.experts);
    out.layers.resize(static_cast<size_t>(placement->layers));
    for (size_t layer = 0; layer < out.layers.size(); ++layer) {
      out.layers[layer].share.assign(experts, 0);
      out.layers[layer].slots = controllers::LayoutOf(*placement, static_cast<int>(layer));
    }
    std::vector<double> rows(out.layers.size());
    for (const auto& one : memory.rounds) {
      const RoutedRound& round = one->round;
      const auto layer = static_cast<size_t>(round.layer);
      if (round.layer < 0 || layer >= rows.size() || round.top_k <= 0) continue;
      rows[layer] += static_cast<double>(round.experts.size()) / round.top_k;
      for (const uint16_t expert : round.experts) {
        if (expert < experts) ++out.layers[layer].share[expert];
      }
    }
    for (size_t layer = 0; layer < rows.size(); ++layer) {
      for (double& share : out.layers[layer].share) share /= std::max(rows[layer], 1.0);
    }
    return out;
  }

  const ServiceObserved& seen_;
  const Side& front_;
  const Desired& desired_;
  const bool has_old_side_;
  const PlacementSpec& spec_;
};

}  // namespace

std::optional<TakenRounds> Rebalance(const ServiceObserved& seen, const Rollout& rollout) {
  return Rebalancing(seen, rollout).Run();
}

}  // namespace janus::control
