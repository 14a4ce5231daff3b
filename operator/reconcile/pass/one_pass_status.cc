#include <algorithm>
#include <cmath>
#include <utility>

#include "common/fingerprint.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {
namespace {

// A failure is nobody's business before it has lasted: a conflict, a server that is restarted.
constexpr std::chrono::seconds kFailingFor{10};

// Of a Deployment: why the server lets none of its pods be made, in the server's words.
std::string WhyNotMade(const Node& deployment) {
  const Node* const conditions = FindAt(deployment, {"status", "conditions"});
  if (conditions == nullptr) return "";
  for (const Node& one : conditions->items) {
    if (TextAt(one, {"type"}) != "ReplicaFailure" || TextAt(one, {"status"}) != "True") continue;
    return "no more can be made: " + std::string(TextAt(one, {"message"}));
  }
  return "";
}

void AlsoSay(const Refusal& refusal, Cause& said) {
  if (!said) {
    said = refusal.cause;
  } else if (said.reason == refusal.cause.reason &&
             said.message.find(refusal.cause.message) == std::string::npos) {
    said.message += "; " + refusal.cause.message;
  }
}

}  // namespace

// Empty: it is not.
std::string Reconciler::OnePass::WhyAsleep() {
  if (service_.spec.suspend) return "the service is suspended";
  for (const RolePass& role : roles_) {
    if (SpecOf(service_, role.role).replicas == 0) {
      return "nobody serves: spec.roles." + std::string(ToString(role.role)) + ".replicas is 0";
    }
  }
  return "";
}

RoleStatus Reconciler::OnePass::SeenOf(const RolePass& role) {
  RoleStatus out;
  out.role = role.role;
  out.desired = role.wanted.pods;
  out.last_pod_id = LastPodId(tree_, role.role);
  out.is_external = IsExternal(SpecOf(service_, role.role));
  out.limit = out.is_external ? LimitOf(role) : role.limit;
  out.selector = std::string(kServiceLabel) + "=" + service_.metadata.name + "," +
                 std::string(kRoleLabel) + "=" + std::string(ToString(role.role)) + "," +
                 std::string(kMemberLabel) + "=true";
  for (const PodSeen& pod : role.pods) {
    const bool is_committed = committed_.contains(pod.uid);
    const bool is_new = pod.revision == role.wanted.revision;
    out.draining += pod.is_leaving;
    out.gpus += pod.held_gpus();
    out.pods += pod.is_live();
    out.updated += pod.is_live() && is_new;
    out.ready += pod.is_live() && pod.is_ready && is_committed;
    const bool is_alive = is_committed && alive_.contains(InstanceOf(pod));
    const bool is_current = is_new || !role.wanted.rolls || role.wanted.revision.empty();
    out.current += is_alive && is_current;
    out.outdated += is_alive && !is_current;
    const std::string name = "pod " + pod.name + ": ";
    if (pod.is_live() && !pod.crash_loop.empty()) out.crashing = name + pod.crash_loop;
    if (pod.is_live() && !pod.unplaceable.empty()) out.unplaceable = name + pod.unplaceable;
    if (pod.is_live() && !pod.not_starting.empty()) out.not_starting = name + pod.not_starting;
    if (pod.is_live() && !pod.containers_ready) {
      out.awaited = "pod " + pod.name + " is not ready";
    } else if (!pod.is_leaving && pod.has_ended) {
      out.awaited = name + WhyEnded(pod);
    }
  }
  if (role.awaits_certificate && out.awaited.empty()) {
    out.awaited = "pods wait for a certificate, and Progressing says why";
  }
  const std::string making =
      "create Pod " + RoleObjectName(service_.metadata.name, role.role) + "-";
  for (const Refusal& refusal : refused_) {
    if (refusal.kind != RefusalKind::kCapacity || !refusal.cause.message.starts_with(making))
      continue;
    out.no_room = refusal.cause;
  }
  if (wants_pods() && topology_ && topology_->spec.committed) {
    for (const TopologyInstance& one : topology_->spec.committed->instances) {
      out.committed += one.role == role.role;
    }
  }
  return out;
}

// What keeps passes from being done to their end, once it has done so for a while; what has a
// reason of its own is said by that.
std::string Reconciler::OnePass::FailsFor() {
  const auto found = std::find_if(refused_.begin(), refused_.end(), [](const Refusal& one) {
    return one.kind == RefusalKind::kRetry && one.cause.reason.empty();
  });
  if (found == refused_.end()) {
    memory_.failing_since.reset();
    return "";
  }
  if (!memory_.failing_since) memory_.failing_since = now_;
  const MonotonicTime said = *memory_.failing_since + kFailingFor;
  if (now_ >= said) return found->cause.message;
  BringForward(again_, said);
  return "";
}

// Of its gateways the first, by name, that does not come to run.
std::string Reconciler::OnePass::GatewayTrouble() const {
  const ObjectKey key = KeyOf(tree_);
  std::string out;
  for (const Node& pod : owner_.caches_.pods.Find(kByService, key.namespace_ + "/" + key.name)) {
    if (TextAt(pod, {"metadata", "labels", "app.kubernetes.io/component"}) != "gateway") continue;
    if (FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr) continue;
    const std::string why = WhyNotRunning(pod);
    if (why.empty()) continue;
    const std::string said = "pod " + KeyOf(pod).name + ": " + why;
    if (out.empty() || said < out) out = said;
  }
  return out;
}

// Why the service has no Service of that name: it cannot be made, or is somebody else's. While it
// is being made nothing is said: who looks before it is there finds other things that are not.
Cause Reconciler::OnePass::WhyNoService(const std::string& name) const {
  const ObjectKey key{service_.metadata.namespace_, name};
  const auto there = memory_.writes.Newest(kServices, key, owner_.caches_.Of(kServices).Get(key));
  if (there && IsControlledBy(*there, memory_.uid)) return {};
  const std::string what = kServices.kind + " " + name;
  for (const Refusal& one : refused_) {
    const std::string& message = one.cause.message;
    if (message.starts_with(what + " ") || message.starts_with("create " + what + ":")) {
      const bool says_why = one.kind != RefusalKind::kInvalid && one.cause;
      return {says_why ? one.cause.reason : "GatewayNotReady", message};
    }
  }
  return {};
}

// What moves while a service comes up, changes or heals.
WallTime Reconciler::OnePass::Moved(const ServiceSeen& seen) {
  Fingerprint mark;
  mark.Mix(static_cast<uint64_t>(seen.generation)).Mix(static_cast<uint64_t>(seen.topology.epoch));
  mark.Mix(static_cast<uint64_t>(seen.gateways_available)).Mix(uint64_t{seen.topology.is_told});
  for (const PodSeen& pod : old_pods_) mark.Mix(pod.uid).Mix(uint64_t{pod.is_leaving});
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      // That one that failed is followed by another one moves nothing.
      if (!pod.containers_ready && !pod.is_leaving) continue;
      mark.Mix(pod.uid).Mix(uint64_t{pod.containers_ready}).Mix(uint64_t{pod.is_leaving});
    }
  }
  if (!memory_.moved) {
    // Another process has watched it before: it moved when a condition last did.
    memory_.moved = wall_;
    std::optional<WallTime> last;
    for (const Condition& one : ReadConditions(tree_)) {
      if (one.type != "Progressing")
        last = std::max(last.value_or(WallTime{}), one.last_transition);
    }
    if (last) memory_.moved = *last;
  } else if (mark.value() != memory_.moved_mark) {
    memory_.moved = wall_;
  }
  memory_.moved_mark = mark.value();
  return *memory_.moved;
}

ServiceSeen Reconciler::OnePass::Seen() {
  ServiceSeen seen;
  seen.generation = service_.metadata.generation;
  seen.now = wall_;
  seen.attention = SeenOf(roles_[0]);
  seen.experts = SeenOf(roles_[1]);
  seen.asleep = acts() ? WhyAsleep() : "";
  seen.invalid = invalid_;
  seen.capacity = capacity_;
  seen.awaited = awaited_;
  seen.replacing = replacing_;
  seen.held_back = held_back_;
  seen.predecessor_serves = old_serves_;
  seen.is_paused = acts() && service_.spec.paused;
  seen.has_waiting_edits = seen.is_paused && HasWaitingEdits();
  seen.is_plain_text =
      owner_.options_.defaults.certificates && !UsesTls(service_, owner_.options_.defaults);
  for (const Refusal& refusal : refused_) {
    // Of what has no room the first: both roles lack the same. What people are to mend is said at
    // once, not one after the other.
    if (refusal.kind == RefusalKind::kCapacity) {
      if (!seen.capacity) seen.capacity = refusal.cause;
    } else {
      AlsoSay(refusal, refusal.kind == RefusalKind::kInvalid ? seen.invalid : seen.refused);
    }
  }
  seen.fails = FailsFor();
  if (!seen.invalid) seen.invalid = held_tls_;
  if (!seen.refused) seen.refused = uncertified_;
  if (planned_) {
    seen.plan = planned_->plan;
    if (UsesTls(service_, owner_.options_.defaults)) seen.plan->effective.tls = Tls::kAuto;
    seen.model_digest = planned_->model_digest;
    if (!planned_->plan.held.empty()) seen.held = {"NotSupported", planned_->plan.held};
  } else if (IsHeld(service_.spec.roles.attention) || IsHeld(service_.spec.roles.experts)) {
    // Until it is planned the counts are what they were.
    seen.held = {"NotSupported",
                 "mode SLO is not supported by this version; the counts are held as they are"};
  }
  seen.gateway_replicas =
      service_.spec.gateway.replicas.value_or(owner_.options_.defaults.gateway_replicas);
  seen.gateways_wanted = seen.gateway_replicas;
  std::string unmade;
  const ObjectKey gateway{service_.metadata.namespace_, GatewayName(service_.metadata.name)};
  if (const auto there =
          memory_.writes.Newest(kDeployments, gateway, owner_.caches_.deployments.Get(gateway))) {
    if (IsControlledBy(*there, memory_.uid)) {
      seen.gateways_available =
          static_cast<int>(IntegerAt(*there, {"status", "availableReplicas"}).value_or(0));
      unmade = WhyNotMade(*there);
    }
  }
  seen.no_endpoint = WhyNoService(service_.metadata.name);
  if (seen.gateways_available < seen.gateways_wanted) {
    // By which gateways find the workers.
    const Cause no_members = WhyNoService(MembersName(service_.metadata.name));
    seen.gateway_trouble = no_members ? no_members.message : GatewayTrouble();
    if (seen.gateway_trouble.empty()) seen.gateway_trouble = std::move(unmade);
  }
  // A service that sleeps without pods is woken with the operator's image of then.
  const bool sleeps = !wants_pods() && roles_[0].pods.empty() && roles_[1].pods.empty();
  if (!sleeps || invalid_) {
    seen.pinned = pinned_;
  }
  if (topology_) {
    TopologyStatus& topology = seen.topology;
    topology.name = topology_->metadata.name;
    topology.reason = line_->epochs.reason();
    topology.message = line_->epochs.message();
    if (const auto& committed = topology_->spec.committed) {
      topology.epoch = committed->epoch;
      topology.is_told = ServesCommitted();
      topology.has_lost = AliveOf(*committed, alive_).size() < committed->instances.size();
      topology.lost = line_->epochs.WhyLost(committed->epoch);
      for (const TopologyInstance& one : committed->instances) {
        ++(one.role == Role::kAttention ? topology.m : topology.n);
      }
      topology.mode = ToString(committed->mode);
      topology.micro_batches = committed->micro_batches;
      topology.placement_hash = committed->sha256.value_or("").substr(0, 16);
    }
  }
  for (const PodSeen& pod : old_pods_) seen.old_gpus += pod.held_gpus();
  SeeMembers(seen);
  seen.progressed = Moved(seen);
  return seen;
}

// What the members of the committed epoch say when they are asked. As long as this process knows
// nothing of it, it is as another one has said.
void Reconciler::OnePass::SeeMembers(ServiceSeen& seen) {
  if (seen.topology.epoch == 0) return;
  const EpochWatch& watch = line_->epochs.watch();
  seen.answers = watch.answers(now_);
  seen.unanswered = watch.why_unanswered();
  for (const Condition& said : ReadConditions(tree_)) {
    if (said.type != "MetricsAvailable" || seen.answers != EpochWatch::Answers::kUnknown) continue;
    if (said.status == ConditionStatus::kTrue) seen.answers = EpochWatch::Answers::kAll;
    if (said.status != ConditionStatus::kFalse) continue;
    seen.answers = EpochWatch::Answers::kNotAll;
    seen.unanswered = said.message;
  }
  const auto was = [&](FieldPath path) { return IntegerAt(tree_, path); };
  const bool is_same = was({"status", "topology", "epoch"}) == seen.topology.epoch;
  seen.topology.imbalance_permille =
      HeldNumber(is_same ? was({"status", "topology", "imbalancePermille"}) : std::nullopt,
                 watch.imbalance_permille());
  seen.tokens_per_second =
      HeldNumber(was({"status", "slo", "tokensPerSecond"}), watch.tokens_per_second());
  const auto measured = [&](const std::optional<LatencyTarget>& target, const LatencyCounts& counts,
                            std::string_view field) -> std::optional<int64_t> {
    if (!target) return std::nullopt;
    std::optional<int64_t> is;
    if (const auto seconds = counts.Percentile(ShareOf(target->percentile))) {
      is = std::llround(seconds->count() * 1e6);
    }
    return HeldNumber(was({"status", "slo", field}), is);
  };
  const SloSpec& slo = service_.spec.slo;
  seen.tpot_microseconds = measured(slo.tpot, watch.tpot(), "tpotMicroseconds");
  seen.ttft_microseconds = measured(slo.ttft, watch.ttft(), "ttftMicroseconds");
  // Who was never asked for a token has no such number.
  if (seen.tokens_per_second == 0 && !was({"status", "slo", "tokensPerSecond"})) {
    seen.tokens_per_second.reset();
  }
}

void Reconciler::OnePass::WriteStatus() {
  const ServiceSeen seen = Seen();
  for (const RolePass& role : roles_) {
    if (IsExternal(SpecOf(service_, role.role))) WriteScalerStatus(role, seen);
  }
  const Node next = WithStatus(tree_, seen);
  const StatusChange change = Compare(tree_, next);
  if (change == StatusChange::kNone) return;
  if (change == StatusChange::kNumbers && memory_.numbers_written &&
      now_ < *memory_.numbers_written + kNumbersPeriod) {
    BringForward(again_, *memory_.numbers_written + kNumbersPeriod);
    return;
  }
  ApiResult<Node> written =
      owner_.api_.Update(kMoEServices, next, Subresource::kStatus, {}, limits_);
  if (!written.ok()) {
    Refusal refusal = RefusalOf(written.error(), "write status");
    // No condition can say what keeps conditions from being written: an error of ours, whatever it
    // is.
    if (refusal.kind != RefusalKind::kStop) refusal.kind = RefusalKind::kRetry;
    refusal.cause.reason.clear();
    refused_.push_back(std::move(refusal));
    return;
  }
  memory_.numbers_written = now_;
  TellTransitions(tree_, *written);
  memory_.writes.Wrote(kMoEServices, std::string(ResourceVersionOf(tree_)), *std::move(written),
                       now_);
}

// What `kubectl describe` shows of the past comes with the conditions' changes.
void Reconciler::OnePass::TellTransitions(const Node& before, const Node& after) {
  const std::vector<Condition> was = ReadConditions(before);
  for (const Condition& now : ReadConditions(after)) {
    const auto old = std::find_if(was.begin(), was.end(),
                                  [&](const Condition& one) { return one.type == now.type; });
    const bool is_new = old == was.end() || old->reason != now.reason;
    if (!is_new ||
        now.status != (now.type == "Stalled" ? ConditionStatus::kTrue : ConditionStatus::kFalse)) {
      continue;
    }
    if (now.type == "Stalled") {
      Tell({EventType::kWarning, "Validate", {"InvalidSpec", now.message}});
    } else if (now.type == "CapacityAvailable") {
      Tell({EventType::kWarning, "Place", {"InsufficientCapacity", now.message}});
    } else if (now.reason == "CrashLooping" && now.type != "Ready") {
      Tell({EventType::kWarning, "Run", {"CrashLooping", now.message}});
    } else if (now.reason == "CertificatesRefused") {
      Tell({EventType::kWarning, "Certify", {now.reason, now.message}});
    } else if (now.type == "MetricsAvailable") {
      Tell({EventType::kWarning, "Ask", {"MetricsUnavailable", now.message}});
    }
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const auto from = DesiredInstances(before, role);
    const auto to = DesiredInstances(after, role);
    if (!from || !to || *from == *to) continue;
    Tell({EventType::kNormal,
          "Scale",
          {*from < *to ? "ScaledUp" : "ScaledDown", std::string(ToString(role)) + ": from " +
                                                        std::to_string(*from) + " to " +
                                                        std::to_string(*to) + " instances"}});
  }
}

}  // namespace janus::control
