#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "operator/api/parse.h"
#include "operator/api/rfc3339.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pass/one_pass.h"
#include "operator/reconcile/pods/revision.h"

namespace janus::control {
namespace {

// Of a record that is not read, or has none, it is as of one that is about to have it: the newest.
int64_t LastCommittedEpoch(const Node& record) {
  const auto epoch = IntegerAt(record, {"spec", "committed", "epoch"});
  return epoch.value_or(std::numeric_limits<int64_t>::max());
}

int64_t LastEpoch(const std::optional<Node>& record) {
  return record ? IntegerAt(*record, {"spec", "lastEpoch"}).value_or(0) : 0;
}

std::set<std::string> PodsIn(const Node& record) {
  std::set<std::string> out;
  const Parsed<MoETopology> parsed = ParseMoETopology(record);
  for (const auto* one : {&parsed.object.spec.committed, &parsed.object.spec.proposed}) {
    if (*one) out.merge(PodsOf(**one));
  }
  return out;
}

// As much of it as whoever watches it needs.
Topology TopologyOf(const TopologyRecord& record) {
  Topology out;
  out.epoch = static_cast<uint64_t>(record.epoch);
  out.mode = record.mode;
  out.gate = record.gate;
  out.sum = record.sum;
  out.config_hash = record.config_hash;
  for (const TopologyInstance& one : record.instances) {
    Instance instance;
    instance.role = one.role;
    instance.pod_uid = one.pod_uid;
    instance.index = one.index;
    instance.incarnation = one.incarnation;
    instance.node = one.node;
    instance.domain = one.domain.empty() ? one.node : one.domain;
    instance.address = one.address;
    (one.role == Role::kAttention ? out.attention : out.experts).push_back(std::move(instance));
  }
  return out;
}

}  // namespace

// Rollout SideBySide: a service goes over to a model that cannot share an epoch with the one that
// serves, and both stand while it does. Each has a MoETopology, pods and epochs of its own; of the
// old side this file takes care, of the new one a pass as any other.
//
//   the new model is known      from a first pod of its revision: the pods part (Split)
//   both serve or come          losses of the old side are mended by the spec it was whole under
//   the new side is whole       record of the old one: endedEpoch, compare-and-swap
//   its members tell of the new topology; gateways with another tokenizer are replaced
//   the old attention drains    up to rollout.drainSeconds from endedAt
//   the old pods go, and when none is left its record
//
// Until the new side is committed the spec may go back to the old model: then its record goes.

void Reconciler::OnePass::TakeSides(std::vector<Node> records, std::vector<PodSeen> pods) {
  std::set<std::string> names{""};
  for (const Node& record : records) names.insert(KeyOf(record).name);
  memory_.KeepLines(names);
  std::stable_sort(records.begin(), records.end(), [](const Node& a, const Node& b) {
    return LastCommittedEpoch(a) < LastCommittedEpoch(b);
  });
  record_.reset();
  old_record_.reset();
  if (!records.empty()) {
    record_ = std::move(records.back());
    records.pop_back();
  }
  if (!records.empty() && records.front().Find("spec")->Find("committed") != nullptr) {
    old_record_ = std::move(records.front());
    records.erase(records.begin());
  }
  std::move(records.begin(), records.end(), std::back_inserter(spare_records_));
  TakeRecord();
  PartPods(std::move(pods));
}

void Reconciler::OnePass::PartPods(std::vector<PodSeen> pods) {
  old_pods_.clear();
  old_models_.clear();
  models_.clear();
  for (RolePass& role : roles_) role.pods.clear();
  std::set<std::string> old_uids, uids;
  if (old_record_) {
    old_uids = PodsIn(*old_record_);
    if (record_) uids = PodsIn(*record_);
    for (const PodSeen& pod : pods) {
      if (old_uids.contains(pod.uid)) old_models_.insert(pod.model);
    }
    if (const std::optional<MoEService> last = LastServiceOf(*old_record_)) {
      old_models_.insert(ModelLabelOf(*last));
    }
  }
  for (PodSeen& pod : pods) {
    const bool is_old =
        old_uids.contains(pod.uid) || (!uids.contains(pod.uid) && old_models_.contains(pod.model));
    if (committed_.contains(pod.uid)) models_.insert(pod.model);
    (is_old ? old_pods_ : roles_[pod.role == Role::kExperts].pods).push_back(std::move(pod));
  }
}

std::vector<PodSeen> Reconciler::OnePass::TakeAllPods() {
  std::vector<PodSeen> pods = std::exchange(old_pods_, {});
  for (RolePass& role : roles_) {
    std::move(role.pods.begin(), role.pods.end(), std::back_inserter(pods));
    role.pods.clear();
  }
  return pods;
}

// What is wanted comes beside what serves.
void Reconciler::OnePass::Split() {
  std::vector<PodSeen> pods = TakeAllPods();
  old_record_ = std::exchange(record_, std::nullopt);
  TakeRecord();
  PartPods(std::move(pods));
  planned_.reset();
  capacity_ = awaited_ = {};
  PlanSpec();
}

// The model that is wanted is the old one's again, before the new one came to serve.
void Reconciler::OnePass::ReturnToOldSide() {
  const bool is_asleep = !WhyAsleep().empty();
  if (!old_record_ || invalid_ || is_asleep || !old_models_.contains(ModelLabelOf(service_))) {
    return;
  }
  if (topology_ && (topology_->spec.committed || ended_)) return;
  std::vector<PodSeen> pods = TakeAllPods();
  if (record_) spare_records_.push_back(*std::move(record_));
  record_ = std::exchange(old_record_, std::nullopt);
  TakeRecord();
  PartPods(std::move(pods));
}

// A third model: two sides at most.
bool Reconciler::OnePass::MustAwaitOldSide() const {
  return old_record_ && !invalid_ && topology_ && topology_->spec.committed &&
         !models_.contains(ModelLabelOf(service_));
}

// What serves is kept by the spec that it came by.
void Reconciler::OnePass::AwaitOldSide() {
  held_back_ = {"Replacing",
                "spec.model has changed again: the pods of the model before the one that serves "
                "leave first"};
  std::optional<MoEService> last = LastService();
  if (!last) {
    is_frozen_ = true;
    return;
  }
  last->spec.suspend = service_.spec.suspend;
  last->spec.paused = service_.spec.paused;
  last->spec.rollout = service_.spec.rollout;
  service_.spec = std::move(last->spec);
  PlanSpec();
}

// As many as are wanted serve, of the newest revision.
bool Reconciler::OnePass::IsWhole() const {
  if (invalid_ || !planned_ || !planned_->awaited.empty()) return false;
  if (!topology_ || !topology_->spec.committed || topology_->spec.proposed) return false;
  if (!line_->epochs.HasTold(topology_->spec.committed->epoch)) return false;
  return std::all_of(roles_.begin(), roles_.end(), [&](const RolePass& role) {
    const auto serving = std::count_if(role.pods.begin(), role.pods.end(), [&](const PodSeen& pod) {
      return pod.is_live() && committed_.contains(pod.uid) && pod.revision == role.wanted.revision;
    });
    return serving == role.wanted.pods;
  });
}

// All gateways are as is wanted, and those before them have gone: whoever could not talk to the new
// side asks nobody any more.
bool Reconciler::OnePass::HaveGatewaysFollowed() const {
  if (!refused_.empty()) return false;
  const ObjectKey service = KeyOf(tree_);
  const ObjectKey key{service.namespace_, GatewayName(service.name)};
  const std::optional<Node> there =
      memory_.writes.Newest(kDeployments, key, owner_.caches_.deployments.Get(key));
  if (!there) return false;
  const auto is = [&](FieldPath path) { return IntegerAt(*there, path).value_or(0); };
  if (is({"status", "observedGeneration"}) < is({"metadata", "generation"})) return false;
  for (const std::string_view count : {"replicas", "updatedReplicas", "availableReplicas"}) {
    if (is({"status", count}) != is({"spec", "replicas"})) return false;
  }
  const std::vector<Node> pods =
      owner_.caches_.pods.Find(kByService, service.namespace_ + "/" + service.name);
  return std::none_of(pods.begin(), pods.end(), [](const Node& pod) {
    return TextAt(pod, {"metadata", "labels", "app.kubernetes.io/component"}) == "gateway" &&
           FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  });
}

void Reconciler::OnePass::KeepOldSide(const Certified& certified) {
  OnePass old(owner_, memory_, tree_, limits_.stop);
  old.RunAsOld(*this, certified);
  tree_ = std::move(old.tree_);
  std::move(old.refused_.begin(), old.refused_.end(), std::back_inserter(refused_));
  if (old.again_) BringForward(again_, *old.again_);
  const bool knows = old.topology_ && old.topology_->spec.committed;
  const bool is_whole = knows && AliveOf(*old.topology_->spec.committed, alive_).size() ==
                                     old.topology_->spec.committed->instances.size();
  old_serves_ = is_whole && old.ServesCommitted() &&
                old.line_->epochs.WhyLost(old.topology_->spec.committed->epoch).empty();
  if (old.ended_) {
    replacing_ = {"Replacing", "the new model serves; " + std::to_string(old_pods_.size()) +
                                   " pods of the old one are left, whose answers have up to " +
                                   std::to_string(service_.spec.rollout.drain_seconds) +
                                   " s to come to their ends"};
  } else {
    replacing_ = {"Replacing",
                  "the new model's pods come beside those of the old one, which go when the new "
                  "ones serve"};
  }
  other_epoch_ = LastEpoch(old.record_);
  may_propose_ = !knows || !old.topology_->spec.proposed;
  // A later leader may still write its record as long as ours is not the fence.
  if (old.topology_ && old.line_->epochs.fence() != old.topology_->spec.fence) may_propose_ = false;
}

void Reconciler::OnePass::RunAsOld(OnePass& front, const Certified& certified) {
  is_old_side_ = true;
  pinned_ = front.pinned_;
  alive_ = front.alive_;
  other_epoch_ = LastEpoch(front.record_);
  service_ = front.service_;
  record_ = front.old_record_;
  TakeRecord();
  for (PodSeen& pod : front.old_pods_) {
    roles_[pod.role == Role::kExperts].pods.push_back(pod);
  }
  const PassContext context = Context();
  const bool is_decided = front.topology_ && front.topology_->spec.committed;
  PlanOldSide(front, !is_decided);
  if (!is_decided && !ended_) {
    for (RolePass& role : roles_) PlanRole(role);
    if (!context.is_stopped()) MakeAllPods(certified.can_start);
  }
  if (!front.wants_pods()) {
    ends_ = "the service sleeps";
  } else if (front.IsWhole()) {
    ends_ = "another model serves beside it";
  }
  if (!context.is_stopped() && certified.can_call) AdvanceEpochs();
  if (ended_) EndOldSide(front);
  if (!context.is_stopped()) MarkAndRemove();
  const bool is_empty = roles_[0].pods.empty() && roles_[1].pods.empty();
  if (ended_ && is_empty && !context.is_stopped()) DropRecord(*record_);
}

// Losses are mended by the spec that it was whole under; nothing else of it changes.
void Reconciler::OnePass::PlanOldSide(const OnePass& front, bool mends) {
  const std::optional<MoEService> last = LastService();
  if (last) service_.spec = last->spec;
  service_.spec.suspend = front.service_.spec.suspend;
  service_.spec.paused = front.service_.spec.paused;
  if (!last || !topology_ || !topology_->spec.committed) mends = false;
  for (RolePass& role : roles_) {
    role.wanted = {};
    role.wanted.now = wall_;
    role.wanted.rolls = false;
    role.wanted.revision = RevisionOf(service_, role.role, ImageOfPods());
    for (const PodSeen& pod : role.pods) {
      if (pod.is_live() && committed_.contains(pod.uid)) role.wanted.revision = pod.revision;
    }
    RoleSpec& spec = SpecOf(service_, role.role);
    if (topology_ && topology_->spec.committed && !spec.replicas) {
      const auto& instances = topology_->spec.committed->instances;
      spec.replicas = static_cast<int32_t>(
          std::count_if(instances.begin(), instances.end(),
                        [&](const TopologyInstance& one) { return one.role == role.role; }));
    }
    spec.scaling.reset();
    role.wanted.pods = front.wants_pods() ? spec.replicas.value_or(0) : 0;
  }
  if (!mends || !front.wants_pods()) return;
  LookForWorkers();
  janus::Result<PlannedService> planned =
      PlanPinned(owner_.planner_, AsPlanned(service_), HeldRoom());
  if (planned.ok()) planned_ = *std::move(planned);
}

void Reconciler::OnePass::EndOldSide(const OnePass& front) {
  for (RolePass& role : roles_) role.plan = {};
  if (line_->epochs.fence() != topology_->spec.fence) return;
  const MemberOrder order = OrderTo(ended_->epoch, AliveOf(*ended_, alive_));
  MonotonicTime deadline = EndOfDrain(front.service_.spec.rollout.drain_seconds);
  // What is lost cannot come to its end here.
  if (order.members.size() < ended_->instances.size() || !front.wants_pods()) deadline = now_;
  std::optional<EpochEnd::Beside> beside;
  if (now_ < deadline) {
    if (!front.planned_ || !front.topology_ || !front.topology_->spec.committed) {
      BringForward(again_, deadline);
      return;
    }
    beside = EpochEnd::Beside{
        {TopologyOf(*front.topology_->spec.committed), front.planned_->text_digest},
        front.HaveGatewaysFollowed()};
  }
  if (!Dismiss(order, beside, deadline)) return;
  for (RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      if (!pod.is_leaving) {
        role.plan.remove.push_back(
            {pod.name, pod.uid, "another model has taken the place of its own"});
      }
    }
  }
}

// A record that nobody needs: what it proposes is aborted first.
void Reconciler::OnePass::DropRecord(Node record) {
  const std::string name = KeyOf(record).name;
  if (FindAt(record, {"spec", "proposed"}) != nullptr) {
    EpochDriver::Situation situation{
        service_,     "",      std::move(record),
        std::nullopt, {},      alive_,
        now_,         limits_, [wake = owner_.wake_, key = KeyOf(tree_)] { wake(key); }};
    situation.ends = "the spec has gone back to the model that serves";
    EpochDriver::Outcome outcome =
        memory_.LineOf(name).epochs.Advance(std::move(situation), memory_.writes, tell_);
    if (outcome.refusal) refused_.push_back(*std::move(outcome.refusal));
    if (outcome.again) BringForward(again_, *outcome.again);
    if (!outcome.record || FindAt(*outcome.record, {"spec", "proposed"}) != nullptr) return;
    record = *std::move(outcome.record);
  }
  DeleteOptions options;
  options.uid = UidOf(record);
  const ApiResult<Node> gone = owner_.api_.Delete(kTopologies, KeyOf(record), options, limits_);
  if (gone.ok()) {
    memory_.writes.Deleted(std::string(UidOf(record)));
    Tell({EventType::kNormal,
          "Delete",
          {"Deleted", "MoETopology " + name + " is not needed any more"}});
  } else {
    refused_.push_back(RefusalOf(gone.error(), "delete MoETopology " + name));
  }
}

// A planner keeps what pods say by service: of the two sides each is one.
MoEService Reconciler::OnePass::AsPlanned(MoEService service) const {
  service.metadata.uid = PlannerKey();
  return service;
}

}  // namespace janus::control
