#include "operator/reconcile/epochs/wanted_topology.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operator/reconcile/epochs/compose.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/exchange/choose_mode.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/placement/choose_placement.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/reconcile/scaling/scaled_counts.h"
#include "operator/reconcile/status/words.h"

namespace janus::control {
namespace {

using controllers::ExchangeWay;

// How long a member of a lost epoch may be silent before the next epoch starts without it. It has
// not answered its peers before (docs/steps.md), nor the call that found it silent. It returns with
// another epoch, at the latest when its liveness probe has ended its process.
constexpr std::chrono::seconds kSilentFor{1};

// A silent member of a lost epoch cannot be prepared: the next epoch waits for it, or starts
// without it.
enum class Answers { kYes, kNotYet, kNo };

class Wanted {
 public:
  Wanted(const PlanningSide& from, const Desired& desired, const std::array<PodPlan, 2>& pods)
      : from_(from), desired_(desired), pods_(pods) {}

  WantedTopology Decide() {
    if (pods_[0].may_go.empty() && pods_[1].may_go.empty()) return Build();
    // Without the pods that may go, if the others can hold the model.
    Wanted fewer = *this;
    fewer.leaves_out_ = true;
    WantedTopology out = fewer.Build();
    return out.proposal != nullptr ? std::move(out) : Build();
  }

 private:
  WantedTopology Build() {
    if (const TopologyRecord* const committed = from_.side.committed()) {
      experts_ = ExpertsOf(*committed);
      has_lost_ = AliveOf(*committed, from_.seen.alive).size() < committed->instances.size() ||
                  !from_.side.epochs().WhyLost(committed->epoch).empty();
      // Paused: only repairs.
      if (desired_.service.spec.paused && !has_lost_) return std::move(out_);
    }
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      if (MustWait(role) || !TakeWorkers(role)) return std::move(out_);
    }
    Compose();
    return std::move(out_);
  }

  // For pods of the role that are starting, or that will be ready again soon.
  bool MustWait(Role role) {
    const std::vector<PodSeen>& pods = from_.side.pods[role == Role::kExperts];
    const RoleWanted& wanted = desired_.Of(role).wanted;
    const PodPlan& plan = pods_[role == Role::kExperts];
    const std::string awaited = AwaitedPod(pods, wanted, plan.members);
    if (!awaited.empty()) {
      const auto pod = std::ranges::find(pods, awaited, &PodSeen::name);
      out_.awaited = {"WaitingForPods", NotReadyWords(*pod)};
      BringForward(out_.again, At(from_.seen.now, kAwaitedFor));
      if (!has_lost_) return true;
    }
    const auto restarting = AwaitedRestart(pods, wanted, plan.members, from_.side.committed_pods);
    if (!restarting) return false;
    out_.awaited = {"WaitingForPods", "pod " + restarting->name + " is being started again"};
    BringForward(out_.again, At(from_.seen.now, restarting->until - from_.seen.wall));
    return true;
  }

  // False: wait for one of them.
  bool TakeWorkers(Role role) {
    const std::vector<PodSeen>& pods = from_.side.pods[role == Role::kExperts];
    const TopologyRecord* const committed = from_.side.committed();
    const PodPlan& plan = pods_[role == Role::kExperts];
    for (const std::string& uid : plan.members) {
      if (leaves_out_ && plan.may_go.contains(uid)) continue;
      const auto pod = std::find_if(pods.begin(), pods.end(),
                                    [&](const PodSeen& one) { return one.uid == uid; });
      if (pod->ip.empty()) continue;
      for (int index = 0; index < pod->instances; ++index) {
        const Answers answers = AnswerOf(*pod, index);
        if (answers == Answers::kNotYet) return false;
        if (answers == Answers::kNo) continue;
        workers_.push_back(from_.options.locate(*pod, index));
        if (committed == nullptr) continue;
        const InstanceId id = InstanceOf(*pod, index);
        workers_.back().held = RoomOf(*committed, id);
        const auto has = experts_.find(id);
        if (has != experts_.end()) workers_.back().experts = has->second;
      }
    }
    return true;
  }

  Answers AnswerOf(const PodSeen& pod, int index) {
    const TopologyRecord* const committed = from_.side.committed();
    const EpochsSeen& epochs = from_.side.epochs();
    if (committed == nullptr || epochs.WhyLost(committed->epoch).empty()) return Answers::kYes;
    const auto since = epochs.watch.silent_since.find(InstanceOf(pod, index));
    if (since == epochs.watch.silent_since.end()) return Answers::kYes;
    const std::string silent =
        "pod " + pod.name + " does not answer at " + from_.options.locate(pod, index).address;
    if (from_.seen.now >= since->second + kSilentFor) {
      out_.awaited = {"WorkerUnreachable", silent};
      return Answers::kNo;
    }
    out_.awaited = {"WaitingForPods", silent};
    BringForward(out_.again, since->second + kSilentFor);
    return Answers::kNotYet;
  }

  void Compose() {
    const PlannedService* planned = &*desired_.planned;
    std::array<int, 2> counts{};
    for (const WorkerSeen& worker : workers_) ++counts[worker.role == Role::kExperts];
    // Use the workers that exist, even if fewer than wanted; then each may hold more experts.
    if (counts[0] > 0 && counts[1] > 0 &&
        (counts[0] != planned->plan.m || counts[1] != planned->plan.n)) {
      MoEService fewer = desired_.service;
      for (const Role role : {Role::kAttention, Role::kExperts}) {
        RoleSpec& spec = SpecOf(fewer, role);
        spec.scaling.reset();
        spec.replicas = counts[role == Role::kExperts];
      }
      // Slots for another loss can wait until all are back.
      if (counts[1] < planned->plan.n) fewer.spec.roles.experts.placement.survivable = false;
      int room = RoomForMicroBatches(desired_);
      janus::Result<PlannedService> anew = PlanWithRoomFor(
          [&](const MoEService& one) { return PlanKeeping(from_, desired_, one); }, fewer, 1, room);
      if (!anew.ok()) {
        if (!out_.awaited) out_.awaited = {"WaitingForPods", anew.status().message()};
        return;
      }
      out_.planned = *std::move(anew);
      planned = &*out_.planned;
    }
    const PlacementSpec& spec = desired_.service.spec.roles.experts.placement;
    ChosenPlacement chosen = ChoosePlacement(from_, *planned, spec, workers_, has_lost_);
    ServicePlan plan = planned->plan;
    const auto compose = [&](const ExchangeWay& way) {
      plan.effective.mode = way.mode;
      plan.effective.gate = way.gate;
      return ComposeTopology(1, workers_, plan, planned->model,
                             chosen.placement ? &*chosen.placement : nullptr, chosen.levels);
    };
    const TopologyRecord* const committed = from_.side.committed();
    const ExchangeWay current = WayOf(committed, planned->plan);
    janus::Result<Topology> topology = compose(current);
    out_.placement = std::move(chosen.next);
    if (topology.ok()) {
      ChosenMode exchange = Choose(*topology, *planned, committed, current);
      if (exchange.way != current) topology = compose(exchange.way);
      out_.exchange_why = std::move(exchange.why);
    }
    if (topology.ok()) {
      out_.proposal = std::make_shared<const EpochProposal>(EpochProposal{
          *std::move(topology), plan, ModelOf(*planned), chosen.why, out_.exchange_why});
      return;
    }
    // Too few to hold the model: wait for the pods that are starting.
    if (!out_.awaited) out_.awaited = {"WaitingForPods", topology.status().message()};
  }

  // The record's, as far as Auto chooses it; null: the planned one.
  static ExchangeWay WayOf(const TopologyRecord* record, const ServicePlan& plan) {
    ExchangeWay out{plan.effective.mode, plan.effective.gate};
    if (record == nullptr) return out;
    if (plan.chooses_mode) out.mode = record->mode;
    if (plan.moves_gate()) out.gate = record->gate;
    return out;
  }

  // `topology`: as it would be in the current mode, with the gate on its current side.
  ChosenMode Choose(const Topology& topology, const PlannedService& planned,
                    const TopologyRecord* committed, const ExchangeWay& current) {
    if (committed == nullptr) return ChooseMode(topology, planned, {}, std::nullopt, false);
    const WatchSeen& watch = from_.side.epochs().watch;
    const bool is_asked = watch.epoch == committed->epoch;
    // The epoch that is being prepared keeps what it has, and the reason, even if figures change.
    if (const TopologyRecord* const proposed = from_.side.proposed()) {
      return {WayOf(proposed, planned.plan), ""};
    }
    const EpochContent content = ContentOf(topology);
    return ChooseMode(topology, planned,
                      LinksReportedBy(*committed, is_asked ? watch.statistics.get() : nullptr),
                      current, content == ContentOf(*committed));
  }

  const PlanningSide& from_;
  const Desired& desired_;
  const std::array<PodPlan, 2>& pods_;
  bool leaves_out_ = false;  // the pods that may go
  bool has_lost_ = false;
  std::map<InstanceId, controllers::HeldExperts> experts_;
  std::vector<WorkerSeen> workers_;
  WantedTopology out_;
};

}  // namespace

WantedTopology TopologyWanted(const PlanningSide& from, const Desired& desired,
                              const std::array<PodPlan, 2>& pods) {
  WantedTopology none;
  if (!desired.planned || !desired.acts() || !desired.wants_pods()) return none;
  if (!desired.ends.empty()) return none;
  if (!desired.planned->awaited.empty()) {
    none.awaited = {"ModelUnknown", desired.planned->awaited};
    return none;
  }
  return Wanted(from, desired, pods).Decide();
}

}  // namespace janus::control
