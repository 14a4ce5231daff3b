#include "operator/reconcile/pass/decide.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

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

// One decision in progress, subject by subject.
class Deciding {
 public:
  Deciding(const ServiceObserved& seen, const ReconcilerOptions& options)
      : seen_(seen), options_(options), out_(seen) {
    decision_.rollout = DecideRollout(seen, options);
    out_.LookAgain(desired().again);
    decision_.certified = CertifiedBy(seen, options, decision_.rollout.sides, desired());
    out_.LookAgain(decision_.certified.again);
    if (seen.next_lost_node) out_.LookAgain(At(seen.now, *seen.next_lost_node - seen.wall));
  }

  Plan Run() {
    ScalingTick tick = Tick(seen_, options_, decision_.rollout);
    out_.LookAgain(tick.again);
    if (tick.next) {
      const auto& timed = desired().service.spec.timed;
      out_.Add(TakeDecision{*std::move(tick.next), std::move(tick.record),
                            timed ? janus::ToString(timed->device()) : ""});
    }
    if (std::optional<TakenRounds> taken = Rebalance(seen_, decision_.rollout)) {
      out_.Add(TakePlacement{std::move(taken->next), std::move(taken->record)});
    }
    if (desired().acts() || front().topology != nullptr) Certificates();
    if (!desired().workers.attention_revision.empty()) {
      out_.Add(AskWorkers{false, desired().workers});
    }
    PlanFetch(seen_, options_, out_);
    if (may_make()) PlanFrontPods();
    if (old()) old_side_ = PlanOldSide(seen_, options_, decision_.rollout, out_);
    if (may_make()) {
      const std::vector<Child> children =
          WantedChildren(seen_, options_, decision_.rollout.sides, desired());
      PlanChildren(seen_, desired().service, children, out_);
    }
    MakePods();
    bool writes = false;
    if (old()) writes = OldSideActions();
    if (decision_.certified.can_call) FrontEpoch(writes);
    if (desired().acts()) FrontRemovals();
    if (decision_.certified.can_call) {
      for (const TopologySeen* one : decision_.rollout.sides.spare) {
        PlanDrop(seen_, desired().service, *one, out_);
      }
    }
    NoteLastSpec();
    Report(seen_, options_, decision_, out_);
    return std::move(out_.plan());
  }

 private:
  Desired& desired() { return decision_.rollout.desired; }
  const Side& front() const { return decision_.rollout.sides.front; }
  const std::optional<Side>& old() const { return decision_.rollout.sides.old; }
  // Create nothing that does not fit or is not known yet.
  bool may_make() {
    return desired().acts() && HasModel(desired()) && (desired().planned || !desired().capacity);
  }
  // No pod can be described without the folder of its model.
  static bool HasModel(const Desired& of) {
    return !IsFromHub(of.service) || !of.service.commit.empty();
  }

  void Certificates() {
    if (auto keep = PlanCertificates(seen_, options_, decision_.certified, desired()))
      out_.Add(*std::move(keep));
  }

  void PlanFrontPods() {
    if (desired().is_frozen) return;
    const bool recreates = HasOldPods(front(), desired()) && desired().wants_pods();
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      PodPlan& plan = pods_[role == Role::kExperts];
      if (recreates) {
        plan = PlanRecreation(front(), role, desired().Of(role).wanted);
      } else {
        // A pod of the new model would only wait until the old ones are gone.
        plan = PlanRolePods(seen_, front(), role, desired(), desired().ends.empty(), out_);
      }
    }
  }

  void Order(const std::array<PodPlan, 2>& pods, const Desired& of, std::vector<PodOrder>& orders) {
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const std::vector<int>& sizes = pods[role == Role::kExperts].sizes;
      if (sizes.empty() || !HasModel(of)) continue;
      if (!decision_.certified.can_start[role == Role::kExperts]) {
        if (&of == &desired()) decision_.awaits_certificate[role == Role::kExperts] = true;
        continue;
      }
      orders.push_back({role, sizes, of.Of(role).wanted.revision,
                        ImageOfPods(of.service, desired().pinned, options_), &of.service});
    }
  }

  void MakePods() {
    std::vector<PodOrder> orders;
    Order(pods_, desired(), orders);
    if (old()) Order(old_side_.pods, old_side_.desired, orders);
    PlanNewPods(seen_, orders, desired().pinned, options_, out_);
  }

  // True: it writes the old side's record.
  bool OldSideActions() {
    decision_.old_serves = OldSideServes(seen_, *old());
    decision_.replacing = ReplacingCause(decision_.rollout);
    return PlanOldActions(seen_, options_, decision_.rollout, old_side_, decision_.certified, out_);
  }

  // `waits`: the old side's record is about to change, and with it epoch numbers.
  void FrontEpoch(bool waits) {
    const PlanningSide from = FrontOf(seen_, options_, decision_.rollout.sides);
    WantedTopology wanted;
    if (!HasOldPods(front(), desired())) wanted = TopologyWanted(from, desired(), pods_);
    if (wanted.awaited) decision_.awaited = wanted.awaited;
    if (wanted.planned) desired().planned = std::move(wanted.planned);
    if (wanted.placement != nullptr) out_.plan().remembered.placement = wanted.placement;
    decision_.exchange_why = std::move(wanted.exchange_why);
    if (wanted.proposal != nullptr && desired().planned) {
      desired().planned->plan.effective.mode = wanted.proposal->topology.mode;
    }
    out_.LookAgain(wanted.again);
    if (waits) return;
    EpochWish wish;
    wish.wanted = std::move(wanted.proposal);
    if (desired().planned) {
      wish.name = TopologyName(desired().service.metadata.name, *desired().planned);
      // After a Recreate rollout, the old record may have this name.
      if (old() && old()->topology->name() == wish.name) wish.name += "-b";
    }
    wish.ends = desired().ends;
    if (old()) {
      wish.makes_record = true;
      wish.above = old()->last_epoch();
      wish.may_propose = MayFrontPropose(*old());
    }
    if (!PlanEpoch(seen_, desired().service, front().topology, wish, out_)) {
      PlanMemberStatus(seen_, front(), out_);
    }
  }

  void FrontRemovals() {
    bool may_remove = true;
    if (desired().wants_pods() && HasOldPods(front(), desired())) may_remove = ReleaseEnded();
    const std::set<std::string> members = MembersOf(front(), desired().wants_pods());
    PlanMarks(front(), members, out_);
    for (const PodPlan& plan : pods_) {
      if (may_remove) PlanRemovals(front(), plan.remove, members, out_);
    }
    if (decision_.certified.can_call) ReleaseAsleep();
  }

  // Recreate: releases members before the old pods are deleted. True: they are released.
  bool ReleaseEnded() {
    const TopologyRecord& ended = *front().ended();
    const bool are_released = front().has_fence() && front().epochs().released == ended.epoch;
    decision_.awaited = RecreatingCause(front(), desired(), are_released);
    if (are_released || !front().has_fence()) return are_released;
    out_.Add(ReleaseMembers{
        front().topology->name(),
        ReleaseOrder(seen_, front(), ended.epoch, AliveOf(ended, seen_.alive)), std::nullopt,
        EndOfDrain(seen_, front(), desired().service.spec.rollout.drain_seconds)});
    return false;
  }

  // A worker with SIGTERM stays until an epoch without it serves, and a sleeping service gets none.
  // So its members are released here: attention instances finish their answers, then all leave. It
  // waits until all members' pods are being deleted, because no epoch can continue with a released
  // member.
  void ReleaseAsleep() {
    std::optional<MonotonicTime>& since = out_.plan().remembered.asleep_since;
    const TopologyRecord* const committed = front().committed();
    if (desired().wants_pods() || committed == nullptr) {
      since.reset();
      return;
    }
    std::set<std::string> leaving;
    for (const PodSeen& pod : front().AllPods()) {
      if (!front().committed_pods.contains(pod.uid)) continue;
      if (!pod.is_leaving) return;
      if (!pod.has_ended && !pod.is_lost) leaving.insert(pod.uid);
    }
    // Another leader's epoch: members refuse our calls until our fence is raised.
    if (leaving.empty() || !front().has_fence()) return;
    if (!since) since = seen_.now;
    MemberOrder order = ReleaseOrder(seen_, front(), committed->epoch, committed->instances);
    std::erase_if(order.members,
                  [&](const TopologyInstance& one) { return !leaving.contains(one.pod_uid); });
    if (front().epochs().released == committed->epoch) return;
    out_.Add(ReleaseMembers{front().topology->name(), std::move(order), std::nullopt,
                            At(*since, Seconds(desired().service.spec.rollout.drain_seconds))});
  }

  // Records the spec under which everything runs. While a later spec cannot be carried out, this
  // one is kept up.
  void NoteLastSpec() {
    const Desired& of = desired();
    // While paused, counts and pods may differ from the spec; while TLS is held, so does TLS.
    if (of.service.spec.paused || of.held_tls || of.held_back) return;
    if (of.invalid || of.capacity || of.awaited || decision_.awaited) return;
    if (!of.wants_pods() || !IsWhole(front(), of)) return;
    if (front().epochs().under_way || !out_.refused().empty()) return;
    const Node* const spec = seen_.tree.Find("spec");
    if (spec == nullptr || IsLastSpec(seen_.tree, front().topology)) return;
    const std::string text = WriteJson(*spec);
    if (text.size() > kMostSpecBytes) return;
    UpdateTopology update{front().topology->record, Subresource::kNone,
                          "note the spec that serves"};
    SetAt(update.object, {"metadata", "annotations", kLastSpecAnnotation}, Node::String(text));
    out_.Add(std::move(update));
  }

  const ServiceObserved& seen_;
  const ReconcilerOptions& options_;
  PlanBuilder out_;
  Decision decision_;
  std::array<PodPlan, 2> pods_;  // of the front side, by role
  OldSide old_side_;
};

}  // namespace

Plan Decide(const ServiceObserved& seen, const ReconcilerOptions& options) {
  return Deciding(seen, options).Run();
}

}  // namespace janus::control
