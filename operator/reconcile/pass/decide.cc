#include "operator/reconcile/pass/decide.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/pools.h"
#include "operator/api/json.h"
#include "operator/reconcile/certificates/certified.h"
#include "operator/reconcile/children/plan_children.h"
#include "operator/reconcile/epochs/plan_epoch.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/epochs/wanted_topology.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/model/plan_fetch.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/placement/rebalance.h"
#include "operator/reconcile/pods/plan_pods.h"
#include "operator/reconcile/pools/pools.h"
#include "operator/reconcile/rollout/old_side.h"
#include "operator/reconcile/rollout/recreate.h"
#include "operator/reconcile/rollout/rollout.h"
#include "operator/reconcile/scaling/tick.h"
#include "operator/reconcile/spec/read_spec.h"
#include "operator/reconcile/status/report.h"

namespace janus::control {
namespace {

// All annotations of an object together are limited to 256 KiB.
constexpr size_t kMostSpecBytes = 192 << 10;

// A pool in one decision: what is seen and decided of it alone.
struct Pool {
  int number = 1;
  const ServiceObserved* seen = nullptr;
  bool drains = false;  // more pools exist than are wanted
  Decision decision = {};
  std::array<PodPlan, 2> pods = {};  // of the front side, by role

  Desired& desired() { return decision.rollout.desired; }
  const Sides& sides() const { return decision.rollout.sides; }
  const Side& front() const { return sides().front; }
};

// One decision in progress, subject by subject. A service without pools is its own first pool.
class Deciding {
 public:
  Deciding(const ServiceObserved& seen, const ReconcilerOptions& options)
      : seen_(seen), options_(options), out_(seen) {
    const std::set<int> there = PoolsThere(seen);
    const bool is_single = HasOnePool(seen);
    AddPool(1, is_single ? &seen : nullptr);
    // A spec that cannot be carried out changes nothing.
    wanted_ = desired().acts() ? PoolsWanted(seen, desired().service)
                               : std::max(DesiredPools(seen.tree), 1);
    if (is_single && wanted_ > 1) pools_.clear();
    if (pools_.empty()) AddPool(1, nullptr);
    for (int number = 2; number <= kMostPools; ++number) {
      // While two models serve, no pool is added: it could not have both.
      const bool is_wanted = number <= wanted_ && desired().acts() && !old();
      if (is_wanted || there.contains(number)) AddPool(number, nullptr);
    }
    Certified& certified = first().decision.certified;
    certified = CertifiedBy(*first().seen, options, first().sides(), desired());
    for (Pool& pool : pools_) {
      out_.LookAgain(pool.desired().again);
      if (pool.number == 1) continue;
      certified.lacking.merge(
          CertifiedBy(*pool.seen, options, pool.sides(), pool.desired()).lacking);
    }
    for (Pool& pool : pools_) pool.decision.certified = certified;
    out_.LookAgain(certified.again);
    if (seen.next_lost_node) out_.LookAgain(At(seen.now, *seen.next_lost_node - seen.wall));
  }

  Plan Run() {
    ScalingTick tick = Tick(seen_, options_, Rollouts(), wanted_);
    out_.LookAgain(tick.again);
    if (tick.next) {
      const auto& timed = desired().service.spec.timed;
      out_.Add(TakeDecision{*std::move(tick.next), std::move(tick.record),
                            timed ? janus::ToString(timed->device()) : ""});
    }
    for (Pool& pool : pools_) {
      std::optional<TakenRounds> taken = Rebalance(*pool.seen, pool.decision.rollout);
      if (taken) {
        out_.Add(TakePlacement{std::move(taken->next), std::move(taken->record), pool.number});
      }
    }
    if (desired().acts() || first().front().topology != nullptr) Certificates();
    if (!desired().workers.attention_revision.empty()) {
      out_.Add(AskWorkers{false, desired().workers});
    }
    PlanFetch(seen_, options_, out_);
    for (Pool& pool : pools_) {
      if (MayMake(pool) && !pool.drains) PlanFrontPods(pool);
    }
    if (old()) old_side_ = PlanOldSide(*first().seen, options_, first().decision.rollout, out_);
    if (MayMake(first())) Children();
    MakePods();
    bool writes = false;
    if (old()) writes = OldSideActions();
    for (Pool& pool : pools_) {
      if (can_call()) FrontEpoch(pool, writes);
      if (pool.drains) {
        DrainedRemovals(pool);
      } else if (pool.desired().acts()) {
        FrontRemovals(pool);
      }
      if (!can_call()) continue;
      for (const TopologySeen* one : pool.sides().spare) {
        PlanDrop(*pool.seen, pool.desired().service, *one, out_);
      }
    }
    for (Pool& pool : pools_) NoteLastSpec(pool);
    Report(seen_, options_, Reports(), out_);
    return std::move(out_.plan());
  }

 private:
  Pool& first() { return pools_.front(); }
  Desired& desired() { return first().desired(); }
  const std::optional<Side>& old() { return first().sides().old; }
  bool can_call() { return first().decision.certified.can_call; }

  // `seen`: what is seen of the pool; null: its part of everything.
  void AddPool(int number, const ServiceObserved* seen) {
    if (seen == nullptr) {
      parts_.push_back(std::make_unique<const ServiceObserved>(PartOf(seen_, number)));
      seen = parts_.back().get();
    }
    Pool pool{number, seen, number > std::max(wanted_, 1)};
    pool.decision.rollout = DecideRollout(*seen, options_);
    if (pool.drains) pool.desired().ends = WhyDrained();
    pools_.push_back(std::move(pool));
  }

  std::string WhyDrained() const {
    return "the service has " + std::to_string(wanted_) + (wanted_ == 1 ? " pool" : " pools") +
           " now";
  }

  std::vector<const Rollout*> Rollouts() const {
    std::vector<const Rollout*> out;
    for (const Pool& pool : pools_) {
      if (!pool.drains) out.push_back(&pool.decision.rollout);
    }
    return out;
  }

  std::vector<PoolReport> Reports() const {
    std::vector<PoolReport> out;
    for (const Pool& pool : pools_) {
      out.push_back({pool.number, pool.seen, &pool.decision, pool.drains});
    }
    return out;
  }

  // Create nothing that does not fit or is not known yet.
  static bool MayMake(Pool& pool) {
    const Desired& desired = pool.desired();
    return desired.acts() && HasModel(desired) && (desired.planned || !desired.capacity);
  }
  // No pod can be described without the folder of its model.
  static bool HasModel(const Desired& of) {
    return !IsFromHub(of.service) || !of.service.commit.empty();
  }

  void Certificates() {
    if (auto keep = PlanCertificates(seen_, options_, first().decision.certified, desired()))
      out_.Add(*std::move(keep));
  }

  void Children() {
    OtherPools others;
    others.highest = wanted_;
    for (Pool& pool : pools_) {
      others.highest = std::max(others.highest, pool.number);
      if (pool.number > 1) others.committed = others.committed + CommittedPodsOf(pool.sides());
    }
    const std::vector<Child> children =
        WantedChildren(seen_, options_, first().sides(), desired(), others);
    PlanChildren(seen_, desired().service, children, others.highest, out_);
  }

  void PlanFrontPods(Pool& pool) {
    if (pool.desired().is_frozen) return;
    const bool recreates = HasOldPods(pool.front(), pool.desired()) && pool.desired().wants_pods();
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      PodPlan& plan = pool.pods[role == Role::kExperts];
      if (recreates) {
        plan = PlanRecreation(pool.front(), role, pool.desired().Of(role).wanted);
      } else {
        // A pod of the new model would only wait until the old ones are gone.
        plan = PlanRolePods(*pool.seen, pool.front(), role, pool.desired(),
                            pool.desired().ends.empty(), out_);
      }
    }
  }

  // `awaits`: the certificates that pods wait for, by role; null: not needed.
  void Order(const std::array<PodPlan, 2>& pods, const Desired& of, int pool,
             std::array<bool, 2>* awaits, std::vector<PodOrder>& orders) {
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const std::vector<int>& sizes = pods[role == Role::kExperts].sizes;
      if (sizes.empty() || !HasModel(of)) continue;
      if (!first().decision.certified.can_start[role == Role::kExperts]) {
        if (awaits != nullptr) (*awaits)[role == Role::kExperts] = true;
        continue;
      }
      orders.push_back({role, sizes, of.Of(role).wanted.revision,
                        ImageOfPods(of.service, desired().pinned, options_), &of.service, pool});
    }
  }

  void MakePods() {
    std::vector<PodOrder> orders;
    for (Pool& pool : pools_) {
      Order(pool.pods, pool.desired(), pool.number, &pool.decision.awaits_certificate, orders);
    }
    if (old()) Order(old_side_.pods, old_side_.desired, 1, nullptr, orders);
    PlanNewPods(seen_, orders, desired().pinned, options_, out_);
  }

  // True: it writes the old side's record.
  bool OldSideActions() {
    Decision& decision = first().decision;
    decision.old_serves = OldSideServes(seen_, *old());
    decision.replacing = ReplacingCause(decision.rollout);
    return PlanOldActions(*first().seen, options_, decision.rollout, old_side_, decision.certified,
                          out_);
  }

  // `waits`: the old side's record is about to change, and with it epoch numbers.
  void FrontEpoch(Pool& pool, bool waits) {
    const PlanningSide from = FrontOf(*pool.seen, options_, pool.sides());
    Desired& desired = pool.desired();
    WantedTopology wanted;
    if (!HasOldPods(pool.front(), desired)) wanted = TopologyWanted(from, desired, pool.pods);
    if (wanted.awaited) pool.decision.awaited = wanted.awaited;
    if (wanted.planned) desired.planned = std::move(wanted.planned);
    if (wanted.placement != nullptr) PlacementOf(pool) = wanted.placement;
    pool.decision.exchange_why = std::move(wanted.exchange_why);
    if (wanted.proposal != nullptr && desired.planned) {
      desired.planned->plan.effective.mode = wanted.proposal->topology.mode;
      desired.planned->plan.effective.gate = wanted.proposal->topology.gate;
    }
    out_.LookAgain(wanted.again);
    if (waits) return;
    EpochWish wish;
    wish.wanted = std::move(wanted.proposal);
    wish.pool = pool.number;
    if (desired.planned && !pool.drains) {
      wish.name = TopologyName(desired.service.metadata.name, *desired.planned);
      if (pool.number > 1) wish.name += "-" + std::to_string(pool.number);
      // After a Recreate rollout, the old record may have this name.
      if (pool.sides().old && pool.sides().old->topology->name() == wish.name) wish.name += "-b";
    }
    wish.ends = desired.ends;
    if (pool.sides().old) {
      wish.makes_record = true;
      wish.above = pool.sides().old->last_epoch();
      wish.may_propose = MayFrontPropose(*pool.sides().old);
    }
    if (!PlanEpoch(*pool.seen, desired.service, pool.front().topology, wish, out_)) {
      PlanMemberStatus(*pool.seen, pool.front(), out_);
    }
  }

  void FrontRemovals(Pool& pool) {
    Desired& desired = pool.desired();
    bool may_remove = true;
    if (desired.wants_pods() && HasOldPods(pool.front(), desired)) may_remove = ReleaseEnded(pool);
    const std::set<std::string> members = MembersOf(pool.front(), desired.wants_pods());
    PlanMarks(pool.front(), members, out_, UsesPools(desired.service.spec));
    for (const PodPlan& plan : pool.pods) {
      if (may_remove) PlanRemovals(pool.front(), plan.remove, members, out_);
    }
    if (can_call()) ReleaseAsleep(pool);
  }

  // A pool beyond the wanted number: FrontEpoch has ended its epoch. Its members finish their
  // answers, as far as there is time, and return the rest to the gateways, which continue them in
  // other pools. Then its pods go. Pods outside the epoch go at once.
  void DrainedRemovals(Pool& pool) {
    const Side& front = pool.front();
    const std::set<std::string> members = MembersOf(front, true);
    PlanMarks(front, members, out_);
    const TopologyRecord* const ended = front.ended();
    std::set<std::string> busy = front.committed_pods;
    if (ended != nullptr && front.epochs().released != ended->epoch) {
      for (const TopologyInstance& one : AliveOf(*ended, seen_.alive)) busy.insert(one.pod_uid);
      if (!busy.empty() && can_call() && front.has_fence()) {
        MemberOrder order = ReleaseOrder(seen_, front, ended->epoch, AliveOf(*ended, seen_.alive));
        const MonotonicTime deadline =
            EndOfAnswers(seen_, front, pool.desired(), order.members.size());
        out_.Add(ReleaseMembers{front.topology->name(), std::move(order), std::nullopt, deadline});
      }
    }
    std::vector<PodRemoval> removals;
    for (const PodSeen& pod : front.AllPods()) {
      if (pod.is_leaving || busy.contains(pod.uid)) continue;
      removals.push_back({pod.name, pod.uid, WhyDrained()});
    }
    PlanRemovals(front, removals, members, out_);
  }

  // Recreate: releases members before the old pods are deleted. True: they are released.
  bool ReleaseEnded(Pool& pool) {
    const Side& front = pool.front();
    const TopologyRecord& ended = *front.ended();
    const bool are_released = front.has_fence() && front.epochs().released == ended.epoch;
    pool.decision.awaited = RecreatingCause(front, pool.desired(), are_released);
    if (are_released || !front.has_fence()) return are_released;
    out_.Add(ReleaseMembers{
        front.topology->name(),
        ReleaseOrder(seen_, front, ended.epoch, AliveOf(ended, seen_.alive)), std::nullopt,
        EndOfDrain(seen_, front, pool.desired().service.spec.rollout.drain_seconds)});
    return false;
  }

  // A worker with SIGTERM stays until an epoch without it serves, and a sleeping service gets none.
  // So its members are released here: attention instances finish their answers, then all leave. It
  // waits until all members' pods are being deleted, because no epoch can continue with a released
  // member.
  void ReleaseAsleep(Pool& pool) {
    const Side& front = pool.front();
    std::optional<MonotonicTime>& since = AsleepSince(pool);
    const TopologyRecord* const committed = front.committed();
    if (pool.desired().wants_pods() || committed == nullptr) {
      since.reset();
      return;
    }
    std::set<std::string> leaving;
    for (const PodSeen& pod : front.AllPods()) {
      if (!front.committed_pods.contains(pod.uid)) continue;
      if (!pod.is_leaving) return;
      if (!pod.has_ended && !pod.is_lost) leaving.insert(pod.uid);
    }
    // Another leader's epoch: members refuse our calls until our fence is raised.
    if (leaving.empty() || !front.has_fence()) return;
    if (!since) since = seen_.now;
    MemberOrder order = ReleaseOrder(seen_, front, committed->epoch, committed->instances);
    std::erase_if(order.members,
                  [&](const TopologyInstance& one) { return !leaving.contains(one.pod_uid); });
    if (front.epochs().released == committed->epoch) return;
    out_.Add(
        ReleaseMembers{front.topology->name(), std::move(order), std::nullopt,
                       At(*since, Seconds(pool.desired().service.spec.rollout.drain_seconds))});
  }

  // Records the spec under which everything runs. While a later spec cannot be carried out, this
  // one is kept up.
  void NoteLastSpec(Pool& pool) {
    const Desired& of = pool.desired();
    const Side& front = pool.front();
    // While paused, counts and pods may differ from the spec; while TLS is held, so does TLS.
    if (of.service.spec.paused || of.held_tls || of.held_back) return;
    if (of.invalid || of.capacity || of.awaited || pool.decision.awaited || pool.drains) return;
    if (!of.wants_pods() || !IsWhole(front, of)) return;
    if (front.epochs().under_way || !out_.refused().empty()) return;
    const Node* const spec = seen_.tree.Find("spec");
    if (spec == nullptr || IsLastSpec(seen_.tree, front.topology)) return;
    const std::string text = WriteJson(*spec);
    if (text.size() > kMostSpecBytes) return;
    UpdateTopology update{front.topology->record, Subresource::kNone, "note the spec that serves"};
    SetAt(update.object, {"metadata", "annotations", kLastSpecAnnotation}, Node::String(text));
    out_.Add(std::move(update));
  }

  // What the next pass gets of the pool.
  std::shared_ptr<const PlacementMemory>& PlacementOf(const Pool& pool) {
    Remembered& remembered = out_.plan().remembered;
    return pool.number == 1 ? remembered.placement : remembered.pools[pool.number].placement;
  }
  std::optional<MonotonicTime>& AsleepSince(const Pool& pool) {
    Remembered& remembered = out_.plan().remembered;
    return pool.number == 1 ? remembered.asleep_since : remembered.pools[pool.number].asleep_since;
  }

  const ServiceObserved& seen_;
  const ReconcilerOptions& options_;
  PlanBuilder out_;
  std::vector<std::unique_ptr<const ServiceObserved>> parts_;
  std::vector<Pool> pools_;  // the first one first
  int wanted_ = 0;           // pools
  OldSide old_side_;         // of the first pool
};

}  // namespace

Plan Decide(const ServiceObserved& seen, const ReconcilerOptions& options) {
  return Deciding(seen, options).Run();
}

}  // namespace janus::control
