#include <algorithm>
#include <array>
#include <utility>

#include "operator/api/parse.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {
namespace {

// How long a member of a lost epoch may be silent before the others go on without it. One whose
// process hangs is ended by its liveness probe after thirty seconds.
constexpr std::chrono::seconds kSilentFor{20};

}  // namespace

// Of an epoch that is lost. It could not be prepared with who does not answer: not before it does,
// or has been given up.
Reconciler::OnePass::Answers Reconciler::OnePass::AnswerOf(const PodSeen& pod) {
  if (!topology_ || !topology_->spec.committed) return Answers::kYes;
  if (line_->epochs.WhyLost(topology_->spec.committed->epoch).empty()) return Answers::kYes;
  const std::optional<MonotonicTime> since = line_->epochs.SilentSince(InstanceOf(pod));
  if (!since) return Answers::kYes;
  const std::string silent =
      "pod " + pod.name + " does not answer at " + owner_.options_.locate(pod).address;
  if (now_ >= *since + kSilentFor) {
    awaited_ = {"WorkerUnreachable", silent};
    return Answers::kNo;
  }
  awaited_ = {"WaitingForPods", silent};
  BringForward(again_, *since + kSilentFor);
  return Answers::kNotYet;
}

// Nothing: it is better to wait, or there is nothing to serve with.
std::optional<Topology> Reconciler::OnePass::NextTopology() {
  if (!planned_ || !acts() || !wants_pods()) return std::nullopt;
  if (has_old_pods_ || !ends_.empty()) return std::nullopt;
  if (!planned_->awaited.empty()) {
    awaited_ = {"ModelUnknown", planned_->awaited};
    return std::nullopt;
  }
  bool has_lost = false;
  std::map<InstanceId, controllers::HeldExperts> experts;
  if (topology_ && topology_->spec.committed) {
    experts = ExpertsOf(*topology_->spec.committed);
    const TopologyRecord& committed = *topology_->spec.committed;
    has_lost = AliveOf(committed, alive_).size() < committed.instances.size() ||
               !line_->epochs.WhyLost(committed.epoch).empty();
    // Paused: only what is broken is mended.
    if (service_.spec.paused && !has_lost) return std::nullopt;
  }
  std::vector<WorkerSeen> workers;
  for (const RolePass& role : roles_) {
    const std::string awaited = AwaitedPod(role.pods, role.wanted, role.plan.members);
    if (!awaited.empty()) {
      awaited_ = {"WaitingForPods", "pod " + awaited + " is not ready yet"};
      BringForward(again_, At(now_, kAwaitedFor));
      if (!has_lost) return std::nullopt;
    }
    if (const std::optional<RestartingPod> restarting =
            AwaitedRestart(role.pods, role.wanted, role.plan.members, committed_)) {
      awaited_ = {"WaitingForPods", "pod " + restarting->name + " is being started again"};
      BringForward(again_, At(now_, restarting->until - wall_));
      return std::nullopt;
    }
    for (const std::string& uid : role.plan.members) {
      const auto pod = std::find_if(role.pods.begin(), role.pods.end(),
                                    [&](const PodSeen& one) { return one.uid == uid; });
      if (pod->ip.empty()) continue;
      switch (AnswerOf(*pod)) {
        case Answers::kYes:
          workers.push_back(owner_.options_.locate(*pod));
          if (topology_ && topology_->spec.committed) {
            workers.back().held = RoomOf(*topology_->spec.committed, InstanceOf(*pod));
            if (const auto has = experts.find(InstanceOf(*pod)); has != experts.end()) {
              workers.back().experts = has->second;
            }
          }
          break;
        case Answers::kNotYet:
          return std::nullopt;
        case Answers::kNo:
          break;
      }
    }
  }
  // As many as there are, if not all that are wanted: fewer may have to hold more experts each.
  std::array<int, 2> counts{};
  for (const WorkerSeen& worker : workers) ++counts[worker.role == Role::kExperts];
  if (counts[0] > 0 && counts[1] > 0 &&
      (counts[0] != planned_->plan.m || counts[1] != planned_->plan.n)) {
    MoEService fewer = service_;
    for (const RolePass& role : roles_) {
      RoleSpec& spec = SpecOf(fewer, role.role);
      spec.scaling.reset();
      spec.replicas = counts[role.role == Role::kExperts];
    }
    janus::Result<PlannedService> planned =
        PlanPinned(owner_.planner_, AsPlanned(fewer), HeldRoom());
    if (!planned.ok()) {
      if (!awaited_) awaited_ = {"WaitingForPods", planned.status().message()};
      return std::nullopt;
    }
    planned_ = *std::move(planned);
  }
  // Its number is given when it is proposed.
  janus::Result<Topology> topology = ComposeTopology(1, workers, planned_->plan, planned_->model);
  if (topology.ok()) return *std::move(topology);
  // Too few to hold the model: whoever is still to come makes it whole.
  if (!awaited_) awaited_ = {"WaitingForPods", topology.status().message()};
  return std::nullopt;
}

void Reconciler::OnePass::AdvanceEpochs() {
  EpochDriver::Situation situation{
      service_,     "",      record_,
      std::nullopt, {},      alive_,
      now_,         limits_, [wake = owner_.wake_, key = KeyOf(tree_)] { wake(key); }};
  line_->epochs.Look(situation, tell_, again_);
  situation.wanted = NextTopology();
  if (planned_) {
    situation.plan = planned_->plan;
    situation.name = TopologyName(service_.metadata.name, *planned_);
    // After a rollout Recreate it may be the name of the one beside.
    if (old_record_ && KeyOf(*old_record_).name == situation.name) situation.name += "-b";
    situation.model = ModelOf(*planned_);
  }
  situation.wall = wall_;
  situation.above = other_epoch_;
  situation.may_propose = may_propose_;
  situation.makes_record = old_record_.has_value();
  situation.ends = ends_;
  EpochDriver::Outcome outcome = line_->epochs.Advance(std::move(situation), memory_.writes, tell_);
  if (outcome.refusal) refused_.push_back(*std::move(outcome.refusal));
  if (outcome.again) BringForward(again_, *outcome.again);
  const bool is_new = !record_ && outcome.record;
  record_ = std::move(outcome.record);
  if (is_new) memory_.NameLine(KeyOf(*record_).name);
  TakeRecord();
  if (ended_ && !ends_.empty()) LookForOldPods();  // it was ended just now
  WriteMembers();
}

// Whether the members know what is committed. A label is given when they do: what another process
// told them before this one began is not forgotten.
bool Reconciler::OnePass::ServesCommitted() {
  if (line_->epochs.HasTold(topology_->spec.committed->epoch)) return true;
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      if (committed_.contains(pod.uid) && pod.is_live() && !pod.has_member_label) return false;
    }
  }
  return line_->epochs.reason().empty();
}

}  // namespace janus::control
