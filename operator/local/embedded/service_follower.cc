#include "operator/local/embedded/service_follower.h"

#include <algorithm>
#include <vector>

#include "operator/kube/object.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::control {
namespace {

// Absent: the condition is not set yet.
const Condition* Find(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [&](const Condition& one) { return one.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool Is(const Condition* condition, ConditionStatus status) {
  return condition != nullptr && condition->status == status;
}

ServicePhase PhaseOf(const Node& service, const std::vector<Condition>& conditions) {
  if (Is(Find(conditions, "Available"), ConditionStatus::kTrue)) return ServicePhase::kServing;
  if (IntegerAt(service, {"status", "topology", "epoch"}).value_or(0) > 0) {
    return ServicePhase::kOpening;
  }
  const Condition* const topology = Find(conditions, "TopologyReady");
  if (topology != nullptr && topology->reason == "Preparing") return ServicePhase::kLoading;
  return ServicePhase::kStarting;
}

// The first pod that is not ready; empty: all are ready.
std::string NotReady(std::span<const Node> pods) {
  for (const Node& pod : pods) {
    const std::optional<PodSeen> seen = ReadPod(pod);
    if (seen && !seen->containers_ready) return seen->name;
  }
  return "";
}

std::string Rounded(Seconds seconds) {
  return std::to_string(std::chrono::round<std::chrono::seconds>(seconds).count()) + " s";
}

}  // namespace

Status ServiceFollower::Follow(const Node& service, std::span<const Node> pods,
                               std::span<const ContainerEvent> events, MonotonicTime now) {
  for (const ContainerEvent& event : events) {
    const bool is_loss = event.kind == ContainerEvent::Kind::kEnded && !event.expected;
    if (is_loss && ended_.empty()) ended_ = event.text;
  }
  pods_ready_ = static_cast<int>(std::count_if(pods.begin(), pods.end(), [](const Node& pod) {
    const std::optional<PodSeen> seen = ReadPod(pod);
    return seen && seen->containers_ready;
  }));
  const ServicePhase phase = PhaseOf(service, ReadConditions(service));
  if (phase != phase_) {
    // A failed prepare that is repeated still counts as loading.
    const bool goes_on = phase_ == ServicePhase::kLoading && phase == ServicePhase::kStarting;
    if (!goes_on) {
      phase_ = phase;
      phase_began_ = now;
    }
  }
  has_served_ = has_served_ || phase == ServicePhase::kServing;
  return has_served_ ? OkStatus() : Judge(service, pods, now);
}

Status ServiceFollower::Judge(const Node& service, std::span<const Node> pods, MonotonicTime now) {
  const std::vector<Condition> conditions = ReadConditions(service);
  const std::string logs = "; logs: " + options_.log_dir;
  if (const Condition* stalled = Find(conditions, "Stalled"); Is(stalled, ConditionStatus::kTrue)) {
    return InvalidArgument(stalled->message);
  }
  if (const Condition* room = Find(conditions, "CapacityAvailable");
      Is(room, ConditionStatus::kFalse)) {
    return ResourceExhausted(room->message);
  }
  const Condition* const topology = Find(conditions, "TopologyReady");
  // A worker's error about its files explains more than the end of a process.
  if (topology != nullptr && topology->reason == "PrepareFailed") {
    return FailedPrecondition("loading: " + topology->message + logs);
  }
  if (!ended_.empty()) return Unavailable(ended_);
  if (topology == nullptr || topology->reason != "WorkerUnreachable") {
    unreachable_since_.reset();
  } else {
    if (!unreachable_since_) unreachable_since_ = now;
    if (now - *unreachable_since_ >= options_.patience) {
      return Unavailable("loading: " + topology->message + logs);
    }
  }
  for (const Node& pod : pods) {
    if (TextAt(pod, {"status", "phase"}) != "Failed") continue;
    return FailedPrecondition(KeyOf(pod).name + ": " +
                              std::string(TextAt(pod, {"status", "message"})) + logs);
  }
  if (now - phase_began_ <= options_.ready_timeout) return OkStatus();
  const std::string after = " is not ready after " + Rounded(options_.ready_timeout) + logs;
  if (phase_ == ServicePhase::kOpening) return DeadlineExceeded("the gateway" + after);
  if (phase_ != ServicePhase::kStarting) return OkStatus();
  const std::string late = NotReady(pods);
  return DeadlineExceeded((late.empty() ? "the service" : "pod " + late) + after);
}

}  // namespace janus::control
