#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/json.h"
#include "operator/api/parse.h"
#include "operator/api/rfc3339.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {

// Rollout Recreate: a service goes over to a model that cannot share an epoch with the one that
// serves. Step by step, each decided from what is there:
//
//   the new model is known       from its folder, or from a first pod of the new revision
//   record: endedEpoch           compare-and-swap: here it is decided
//   the old attention drains     up to rollout.drainSeconds from endedAt; gateways hold what comes
//   the old pods go              of both roles
//   pods come, an epoch follows  as for a service that begins, its number above the ended one's

void Reconciler::OnePass::TakeRecord() {
  topology_.reset();
  ended_.reset();
  committed_.clear();
  line_ = &memory_.LineOf(record_ ? KeyOf(*record_).name : "");
  if (!record_) return;
  Parsed<MoETopology> parsed = ParseMoETopology(*record_);
  if (!parsed.errors.empty()) return;
  topology_ = std::move(parsed.object);
  ended_ = TakeEnded(*topology_);
  if (topology_->spec.committed) committed_ = PodsOf(*topology_->spec.committed);
}

// Whether what is planned can follow what is committed.
void Reconciler::OnePass::JudgeModel() {
  ends_.clear();
  if (!planned_ || !acts() || !topology_ || !topology_->spec.committed) return;
  const std::string serves = ModelOf(*topology_->spec.committed, topology_->metadata.name);
  if (serves == ModelOf(*planned_)) return;
  const RolloutType type = service_.spec.rollout.type;
  if (type == RolloutType::kRolling || (type != RolloutType::kRecreate && !MayStandBeside())) {
    invalid_ = {
        "NotSupported",
        "spec.model: other weights, dtype, device or kvCache.dtype cannot follow in the topology " +
            topology_->metadata.name + "; spec.rollout.type: " +
            (MayStandBeside() ? "SideBySide brings the new model up beside what serves, "
                                "where there is room for both; "
                              : "") +
            "Recreate ends what serves and begins with the new model, which takes the "
            "service away for as long as that loads; or create another MoEService"};
    return;
  }
  // There is no room for it: nothing is ended for what cannot come.
  if (capacity_ && type == RolloutType::kRecreate) return planned_.reset();
  if (service_.spec.paused || !wants_pods()) return;
  if (old_record_) return;  // the same pods, which tell of another model: they are not wanted yet
  if (type != RolloutType::kRecreate) return Split();
  ends_ = "the model has changed, and spec.rollout.type is Recreate";
}

// It was of what has ended: nothing that it holds can be of use.
bool Reconciler::OnePass::IsOld(const PodSeen& pod, const RolePass& role) const {
  if (ended_) {
    for (const TopologyInstance& one : ended_->instances) {
      if (one.pod_uid == pod.uid) return true;
    }
  }
  return pod.has_member_label || pod.revision != role.wanted.revision;
}

void Reconciler::OnePass::LookForOldPods() {
  has_old_pods_ = false;
  if (!ended_) return;
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) has_old_pods_ |= IsOld(pod, role);
  }
}

// Nobody comes while the old ones are there: they have the room.
void Reconciler::OnePass::PlanRecreation(RolePass& role) {
  role.plan = {};
  for (const PodSeen& pod : role.pods) {
    if (pod.is_leaving || !IsOld(pod, role)) continue;
    role.plan.remove.push_back({pod.name, pod.uid, "another model takes the place of its own"});
  }
}

// Before old pods are deleted.
void Reconciler::OnePass::EndOldEpoch() {
  if (!ended_ || !has_old_pods_) return;
  int leaving = 0, all = 0;
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      if (!IsOld(pod, role)) continue;
      ++all;
      leaving += pod.is_leaving;
    }
  }
  const std::string name = "epoch " + std::to_string(ended_->epoch);
  const bool is_raised = line_->epochs.fence() == topology_->spec.fence;
  const bool may_go =
      is_raised && Dismiss(OrderTo(ended_->epoch, AliveOf(*ended_, alive_)), std::nullopt,
                           EndOfDrain(service_.spec.rollout.drain_seconds));
  if (may_go || leaving > 0) {
    awaited_ = {"Recreating", name + " is ended: " + std::to_string(all) +
                                  " pods of the old model are leaving, then the new ones come"};
  } else {
    awaited_ = {"Recreating", name + " is ended: its answers have up to " +
                                  std::to_string(service_.spec.rollout.drain_seconds) +
                                  " s to come to their ends; gateways hold what is new"};
  }
  if (may_go) return;
  for (RolePass& role : roles_) role.plan.remove.clear();
}

// By the last spec under which the service was whole; nothing: it is not known.
std::optional<MoEService> Reconciler::OnePass::LastServiceOf(const Node& record) const {
  const std::string text(TextAt(record, {"metadata", "annotations", kLastSpecAnnotation}));
  if (text.empty()) return std::nullopt;
  janus::Result<Node> spec = ParseJson(text, std::string(kLastSpecAnnotation));
  if (!spec.ok()) return std::nullopt;
  Node tree = tree_;
  SetAt(tree, {"spec"}, *std::move(spec));
  ParsedService last = ParseMoEService(tree);
  if (!last.errors.empty()) return std::nullopt;
  return std::move(last.object);
}

std::optional<MoEService> Reconciler::OnePass::LastService() const {
  return record_ ? LastServiceOf(*record_) : std::nullopt;
}

bool Reconciler::OnePass::IsLastSpec() const {
  const Node* const spec = tree_.Find("spec");
  return record_ && spec != nullptr &&
         TextAt(*record_, {"metadata", "annotations", kLastSpecAnnotation}) == WriteJson(*spec);
}

// Gateways make text of tokens: theirs is the model of the workers that serve, until others do.
MoEService Reconciler::OnePass::GatewaysService() {
  MoEService out = service_;
  if (old_record_ && IntegerAt(*old_record_, {"spec", "endedEpoch"}).value_or(0) <
                         IntegerAt(*old_record_, {"spec", "committed", "epoch"}).value_or(0)) {
    if (std::optional<MoEService> last = LastServiceOf(*old_record_)) {
      out.spec.model.source = std::move(last->spec.model.source);
    }
    return out;
  }
  if (!topology_ || (!topology_->spec.committed && !ended_)) return out;
  const RolePass& attention = roles_[0];
  const bool serves =
      std::any_of(attention.pods.begin(), attention.pods.end(), [&](const PodSeen& pod) {
        return committed_.contains(pod.uid) && pod.revision == attention.wanted.revision;
      });
  if (serves) return out;
  if (std::optional<MoEService> last = LastService()) {
    out.spec.model.source = std::move(last->spec.model.source);
  }
  return out;
}

}  // namespace janus::control
