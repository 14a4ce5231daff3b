#include "operator/reconcile/status/report.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/fingerprint.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pods/gone_pods.h"
#include "operator/reconcile/pools/pools.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/reconcile/spec/external_counts.h"
#include "operator/reconcile/status/words.h"

namespace janus::control {
namespace {

// A failure is reported after this time: a conflict or a server restart is over sooner.
constexpr std::chrono::seconds kFailingFor{10};

// What has kept passes from completing for a while. A refusal with a reason has its own condition.
std::string FailsFor(const ServiceObserved& seen, PlanBuilder& out) {
  const std::vector<Refusal>& refused = out.refused();
  const auto found = std::find_if(refused.begin(), refused.end(), [](const Refusal& one) {
    return one.kind == RefusalKind::kRetry && !one.cause;
  });
  std::optional<MonotonicTime>& since = out.plan().remembered.failing_since;
  if (found == refused.end()) {
    since.reset();
    return "";
  }
  if (!since) since = seen.now;
  const MonotonicTime said = *since + kFailingFor;
  if (seen.now >= said) return found->cause.message;
  out.LookAgain(said);
  return "";
}

// A wrong path of the model stays until it is corrected, so the message has its age.
void SaySinceWhenModelIsMissing(Cause& awaited, const ServiceObserved& seen,
                                Remembered& remembered) {
  std::optional<WallTime>& since = remembered.model_missing_since;
  if (awaited.reason != "ModelNotFound") {
    since.reset();
    return;
  }
  if (!since) since = seen.wall;
  awaited.message += " (missing" + Since(*since) + ")";
}

// A hash of what changes while a service starts, changes or recovers.
uint64_t ProgressMark(const StatusFacts& status, const std::vector<PoolReport>& pools) {
  const Sides& sides = pools.front().decision->rollout.sides;
  Fingerprint mark;
  mark.Mix(static_cast<uint64_t>(status.generation))
      .Mix(static_cast<uint64_t>(status.topology.epoch));
  mark.Mix(static_cast<uint64_t>(status.gateways_available)).Mix(uint64_t{status.topology.is_told});
  if (sides.old) {
    for (const PodSeen& pod : sides.old->AllPods()) mark.Mix(pod.uid).Mix(uint64_t{pod.is_leaving});
  }
  for (const PoolReport& pool : pools) {
    for (const PodSeen& pod : pool.decision->rollout.sides.front.AllPods()) {
      // A failed pod with a replacement is no progress.
      if (!pod.containers_ready && (!pod.is_leaving || pod.has_ended)) continue;
      mark.Mix(pod.uid).Mix(uint64_t{pod.containers_ready}).Mix(uint64_t{pod.is_leaving});
    }
  }
  for (size_t i = 1; i < status.pools.size(); ++i) {
    mark.Mix(static_cast<uint64_t>(status.pools[i].topology.epoch));
  }
  return mark.value();
}

WallTime Progressed(const ServiceObserved& seen, uint64_t mark, Remembered& remembered) {
  if (!remembered.progressed) {
    // This process is new: the last transition of a condition counts as progress.
    remembered.progressed = seen.wall;
    std::optional<WallTime> last;
    for (const Condition& one : ReadConditions(seen.tree)) {
      if (one.type == "Progressing") continue;
      last = std::max(last.value_or(WallTime{}), one.last_transition);
    }
    if (last) remembered.progressed = *last;
  } else if (mark != remembered.progress_mark) {
    remembered.progressed = seen.wall;
  }
  remembered.progress_mark = mark;
  return *remembered.progressed;
}

void TellGonePods(const ServiceObserved& seen, PlanBuilder& out) {
  for (const std::string& name : TakeGonePods(seen.pods, out.plan().remembered.leaving)) {
    out.plan().events.push_back(
        {EventType::kNormal, "Delete", {"Drained", "pod " + name + " has ended and is gone"}});
  }
}

// Once, when the last pod of a service has gone whose namespace is being deleted.
void TellNamespaceOf(const ServiceObserved& seen, PlanBuilder& out) {
  bool& has_told = out.plan().remembered.has_told_namespace;
  const bool ends = std::ranges::any_of(out.refused(), &Refusal::namespace_ends);
  const bool is_due = ends && seen.pods.empty() && seen.gateway_pods.empty();
  if (is_due && !has_told) {
    out.plan().report.emplace_back(TellNamespace{seen.key().name, seen.key().namespace_});
  }
  has_told = is_due;
}

// Numbers are written at most once per kNumbersPeriod, messages once per kWordsPeriod.
bool IsDue(StatusChange change, const std::optional<MonotonicTime>& written, PlanBuilder& out,
           MonotonicTime now) {
  if (change == StatusChange::kNone) return false;
  if (change == StatusChange::kNow || !written) return true;
  const MonotonicTime due =
      *written + (change == StatusChange::kWords ? kWordsPeriod : kNumbersPeriod);
  if (now < due) out.LookAgain(due);
  return now >= due;
}

// Decisions for other micro-batches that the status before does not have, oldest first. A later
// decision may have been written over them.
std::vector<DecisionRecord> NewSplits(const Node& before, const Node& after) {
  const auto all = [](const Node& service) {
    std::vector<DecisionRecord> out = HistoryOf(service);
    if (std::optional<DecisionRecord> last = LastDecisionOf(service)) {
      out.insert(out.begin(), *std::move(last));
    }
    std::erase_if(out, [](const DecisionRecord& one) {
      return one.action != DecisionRecord::Action::kSplit;
    });
    return out;
  };
  const std::vector<DecisionRecord> was = all(before);
  std::vector<DecisionRecord> out = all(after);
  std::erase_if(out, [&](const DecisionRecord& one) {
    return std::ranges::find(was, one.time, &DecisionRecord::time) != was.end();
  });
  std::ranges::reverse(out);
  return out;
}

}  // namespace

void Report(const ServiceObserved& seen, const ReconcilerOptions& options,
            const std::vector<PoolReport>& pools, PlanBuilder& out) {
  const Decision& decision = *pools.front().decision;
  TellGonePods(seen, out);
  TellNamespaceOf(seen, out);
  Remembered& remembered = out.plan().remembered;
  StatusFacts status = SeeService(options, pools, out.refused());
  status.fails = FailsFor(seen, out);
  SaySinceWhenModelIsMissing(status.awaited, seen, remembered);
  out.LookAgain(seen.rival_until);
  const uint64_t mark = ProgressMark(status, pools);
  // A download that runs is progress: one that hangs ends itself.
  const bool fetches = status.fetching || std::ranges::any_of(seen.pods, &PodSeen::fetches);
  status.progressed = Progressed(seen, mark, remembered);
  if (fetches) status.progressed = *(remembered.progressed = seen.wall);
  if (seen.wall < status.progressed + kProgressDeadline) {
    out.LookAgain(At(seen.now, status.progressed + kProgressDeadline - seen.wall));
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (!IsExternal(SpecOf(decision.rollout.desired.service, role))) continue;
    const Node* const scaler = ScalerOfRole(seen, role);
    if (scaler == nullptr) continue;
    Node next = WithScalerStatus(*scaler, status, role);
    if (IsDue(Compare(*scaler, next), remembered.scaler_numbers_written[role == Role::kExperts],
              out, seen.now)) {
      out.plan().report.emplace_back(WriteScalerStatus{role, std::move(next)});
    }
  }
  Node next = WithStatus(seen.tree, status);
  if (IsDue(Compare(seen.tree, next), remembered.numbers_written, out, seen.now)) {
    std::vector<ServiceEvent> events = Transitions(seen.tree, next);
    out.plan().report.emplace_back(WriteStatus{std::move(next), std::move(events)});
  }
}

std::vector<ServiceEvent> Transitions(const Node& before, const Node& after) {
  std::vector<ServiceEvent> out;
  const std::vector<Condition> was = ReadConditions(before);
  for (const Condition& now : ReadConditions(after)) {
    const auto old = std::find_if(was.begin(), was.end(),
                                  [&](const Condition& one) { return one.type == now.type; });
    const bool is_new = old == was.end() || old->reason != now.reason;
    if (now.type == "SLOMet" && now.status == ConditionStatus::kTrue && old != was.end() &&
        old->status == ConditionStatus::kFalse) {
      out.push_back({EventType::kNormal, "Judge", {"SLORestored", now.message}});
    }
    if (now.type == "Progressing" && now.reason == "FetchingModel" && is_new) {
      out.push_back({EventType::kNormal, "Fetch", {"ModelFetching", now.message}});
    }
    const ConditionStatus bad =
        now.type == "Stalled" ? ConditionStatus::kTrue : ConditionStatus::kFalse;
    if (!is_new || now.status != bad) continue;
    const auto tell = [&](const char* action, const std::string& reason) {
      out.push_back({EventType::kWarning, action, {reason, now.message}});
    };
    if (now.type == "Stalled") {
      tell("Validate", "InvalidSpec");
    } else if (now.type == "CapacityAvailable") {
      tell("Place", "InsufficientCapacity");
    } else if (now.reason == "CrashLooping" && now.type != "Ready") {
      tell("Run", "CrashLooping");
    } else if (now.type == "Progressing" && now.reason == "ModelFetchFailed") {
      tell("Fetch", now.reason);
    } else if (now.reason == "CertificatesRefused") {
      tell("Certify", now.reason);
    } else if (now.type == "MetricsAvailable") {
      tell("Ask", "MetricsUnavailable");
    } else if (now.type == "SLOMet") {
      tell("Judge", "SLOViolated");
    }
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const auto from = DesiredInstances(before, role);
    const auto to = DesiredInstances(after, role);
    if (!from || !to || *from == *to) continue;
    std::string message = std::string(ToString(role)) + ": from " + std::to_string(*from) + " to " +
                          std::to_string(*to) + " instances";
    const int pools_before = std::max(DesiredPools(before), 1);
    const int pools_after = std::max(DesiredPools(after), 1);
    if (pools_before != pools_after) {
      message += ", and from " + std::to_string(pools_before) + " to " +
                 std::to_string(pools_after) + " pools";
    }
    const std::optional<DecisionRecord> decision = LastDecisionOf(after);
    if (decision && (decision->action == DecisionRecord::Action::kScaleUp ||
                     decision->action == DecisionRecord::Action::kScaleDown)) {
      message += "; " + decision->reason + ": " + decision->message;
    }
    out.push_back({EventType::kNormal,
                   "Scale",
                   {*from < *to ? "ScaledUp" : "ScaledDown", std::move(message)}});
  }
  for (const DecisionRecord& split : NewSplits(before, after)) {
    out.push_back({EventType::kNormal,
                   "Split",
                   {"MicroBatchesChanged", split.reason + ": " + split.message}});
  }
  return out;
}

}  // namespace janus::control
