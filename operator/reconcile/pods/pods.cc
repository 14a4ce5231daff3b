#include "operator/reconcile/pods/pods.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>

#include "operator/api/device.h"
#include "operator/api/quantity.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

// Extra pods during a rollout.
constexpr int kSurge = 1;

bool IsTrue(const Node& pod, std::string_view condition) {
  const Node* conditions = FindAt(pod, {"status", "conditions"});
  if (conditions == nullptr) return false;
  return std::any_of(conditions->items.begin(), conditions->items.end(), [&](const Node& one) {
    return TextAt(one, {"type"}) == condition && TextAt(one, {"status"}) == "True";
  });
}

WallTime TransitionOf(const Node& pod, std::string_view condition) {
  const Node* conditions = FindAt(pod, {"status", "conditions"});
  if (conditions == nullptr) return {};
  for (const Node& one : conditions->items) {
    if (TextAt(one, {"type"}) != condition) continue;
    const auto time = ParseTime(TextAt(one, {"lastTransitionTime"}));
    return time.ok() ? *time : WallTime{};
  }
  return {};
}

std::string UnplaceableMessage(const Node& pod) {
  const Node* conditions = FindAt(pod, {"status", "conditions"});
  if (conditions == nullptr) return "";
  for (const Node& one : conditions->items) {
    if (TextAt(one, {"type"}) == "PodScheduled" && TextAt(one, {"status"}) == "False" &&
        (TextAt(one, {"reason"}) == "Unschedulable" ||
         TextAt(one, {"reason"}) == "SchedulingGated")) {
      return std::string(TextAt(one, {"message"}));
    }
  }
  return "";
}

// A missing or unreadable label: the pod is of a version whose pods had one instance.
int InstancesOfPod(std::string_view label) {
  int out = 1;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), out);
  const bool is_whole = error == std::errc() && end == label.data() + label.size();
  return is_whole && out >= 1 && out <= kMostInstancesPerPod ? out : 1;
}

constexpr std::string_view kCrashLoop = "CrashLoopBackOff";

// Normal reasons for a container to wait.
bool IsOnItsWay(std::string_view waits) {
  return waits.empty() || waits == "ContainerCreating" || waits == "PodInitializing";
}

// Its last words and exit: "no such file (Error, exit code 1)".
std::string LastWords(const Node& container) {
  const Node* const end = FindAt(container, {"lastState", "terminated"});
  if (end == nullptr) return std::string(TextAt(container, {"state", "waiting", "message"}));
  std::string how(TextAt(*end, {"reason"}));
  if (const auto code = IntegerAt(*end, {"exitCode"})) {
    how += (how.empty() ? "" : ", ") + ("exit code " + std::to_string(*code));
  }
  std::string words(TextAt(*end, {"message"}));
  words.erase(words.find_last_not_of(" \n") + 1);
  if (words.empty()) return how;
  return how.empty() ? words : words + " (" + how + ")";
}

// Why a container does not run, in the kubelet's words; empty: no problem.
std::string WhyWaiting(const Node& container) {
  const std::string_view reason = TextAt(container, {"state", "waiting", "reason"});
  if (IsOnItsWay(reason)) return "";
  const std::string why = reason == kCrashLoop
                              ? LastWords(container)
                              : std::string(TextAt(container, {"state", "waiting", "message"}));
  return std::string(reason) + (why.empty() ? "" : ": " + why);
}

void ReadContainers(const Node& pod, PodSeen& out) {
  for (const std::string_view kind : {"initContainerStatuses", "containerStatuses"}) {
    const Node* const containers = FindAt(pod, {"status", kind});
    if (containers == nullptr) continue;
    for (const Node& one : containers->items) {
      const std::string_view name = TextAt(one, {"name"});
      out.fetches |= name == kFetch && FindAt(one, {"state", "running"}) != nullptr;
      const std::string why = WhyWaiting(one);
      if (name == "worker") {
        out.restarts = static_cast<int>(IntegerAt(one, {"restartCount"}).value_or(0));
        const Node* const started = FindAt(one, {"started"});
        out.has_started = started != nullptr && started->boolean;
        if (TextAt(one, {"state", "waiting", "reason"}) == kCrashLoop) {
          out.crash_loop = LastWords(one);
          continue;
        }
      }
      if (!why.empty() && out.not_starting.empty()) {
        out.not_starting = "container " + std::string(name) + ": " + why;
      }
    }
  }
}

bool IsOld(const PodSeen& pod, const RoleWanted& wanted) {
  return wanted.rolls && pod.revision != wanted.revision;
}

// Such a pod may stay as long as it lives; others only until a replacement serves.
bool IsGood(const PodSeen& pod, const RoleWanted& wanted) {
  return pod.is_live() && pod.must_leave.empty() && !IsOld(pod, wanted);
}

// Sorts the most valuable pod first.
auto KeepOrder(const PodSeen& pod, const RoleWanted& wanted, bool is_committed) {
  return std::tuple(!pod.containers_ready, !pod.crash_loop.empty(), !pod.must_leave.empty(),
                    IsOld(pod, wanted), !is_committed, pod.id);
}

// Removes one `size`. False: there is none.
bool TakeSize(std::vector<int>& sizes, int size) {
  const auto found = std::find(sizes.begin(), sizes.end(), size);
  if (found == sizes.end()) return false;
  sizes.erase(found);
  return true;
}

// Which pods are those that the role wants, and the sizes that no pod has.
struct Fitting {
  std::set<const PodSeen*> pods;
  std::vector<int> missing;  // largest first
};

int InstancesOf(const std::vector<const PodSeen*>& pods) {
  int out = 0;
  for (const PodSeen* pod : pods) out += pod->instances;
  return out;
}

// `live`: in KeepOrder. While nothing rolls, pods of any size are as wanted: only what is lost is
// replaced.
Fitting FitSizes(const std::vector<const PodSeen*>& live, const RoleWanted& wanted) {
  Fitting out;
  out.missing = wanted.AllSizes();
  if (!wanted.rolls) {
    RoleWanted lost = wanted;
    lost.instances = std::accumulate(out.missing.begin(), out.missing.end(), 0);
    lost.standby = 0;
    for (const PodSeen* pod : live) {
      if (lost.instances == 0 || !IsGood(*pod, wanted)) continue;
      out.pods.insert(pod);
      lost.instances = std::max(lost.instances - pod->instances, 0);
    }
    out.missing = lost.Sizes();
    return out;
  }
  for (const PodSeen* pod : live) {
    if (IsGood(*pod, wanted) && TakeSize(out.missing, pod->instances)) out.pods.insert(pod);
  }
  return out;
}

std::string WhyRemoved(const PodSeen& pod, const RoleWanted& wanted) {
  if (!pod.must_leave.empty()) return pod.must_leave;
  if (IsOld(pod, wanted)) return "revision " + wanted.revision + " has taken its place";
  const std::vector<int> sizes = wanted.AllSizes();
  if (!sizes.empty() && std::find(sizes.begin(), sizes.end(), pod.instances) == sizes.end()) {
    return "a pod with another number of instances has taken its place";
  }
  return "the role wants fewer pods";
}

// `members`: how many pods should serve now, more than wanted if they are smaller.
int CountToCreate(const std::vector<const PodSeen*>& live, const Fitting& fitting, int members,
                  const RoleWanted& wanted) {
  const auto leaving = static_cast<int>(std::count_if(
      live.begin(), live.end(), [](const PodSeen* pod) { return !pod->must_leave.empty(); }));
  const int all = static_cast<int>(live.size());
  const bool rolling = all - leaving > static_cast<int>(fitting.pods.size());
  const int room = std::max(wanted.all(), members) + leaving + (rolling ? kSurge : 0) - all;
  return std::clamp(room, 0, static_cast<int>(fitting.missing.size()));
}

// The pods that should serve: those of the wanted sizes, and others until all wanted instances are
// there.
std::vector<const PodSeen*> ChooseMembers(const std::vector<const PodSeen*>& live,
                                          const RoleWanted& wanted) {
  std::vector<int> sizes = wanted.Sizes();
  std::vector<const PodSeen*> out;
  for (const PodSeen* pod : live) {
    if (pod->containers_ready && TakeSize(sizes, pod->instances)) out.push_back(pod);
  }
  for (const PodSeen* pod : live) {
    if (InstancesOf(out) >= wanted.instances) break;
    const bool is_chosen = std::find(out.begin(), out.end(), pod) != out.end();
    if (pod->containers_ready && !is_chosen) out.push_back(pod);
  }
  return out;
}

bool IsWithoutRoom(const PodSeen& pod, const RoleWanted& wanted) {
  return pod.must_leave.empty() && !pod.unplaceable.empty() &&
         pod.created + kShrinkAfter <= wanted.now;
}

// The members that need not wait for their replacements, the least valuable ones.
std::set<std::string> MayGo(const std::vector<const PodSeen*>& live,
                            const std::vector<const PodSeen*>& members, const RoleWanted& wanted) {
  std::set<std::string> out;
  if (!wanted.shrinks) return out;
  const auto stuck = static_cast<size_t>(std::count_if(
      live.begin(), live.end(), [&](const PodSeen* pod) { return IsWithoutRoom(*pod, wanted); }));
  for (size_t i = members.size(); i-- > 1;) {
    if (out.size() < stuck && !members[i]->must_leave.empty()) out.insert(members[i]->uid);
  }
  return out;
}

}  // namespace

int64_t GpusOf(const Node& pod) {
  int64_t out = 0;
  const Node* const containers = FindAt(pod, {"spec", "containers"});
  if (containers == nullptr) return out;
  for (const Node& container : containers->items) {
    const Node* const limits = FindAt(container, {"resources", "limits"});
    if (limits == nullptr) continue;
    for (const NodeField& limit : limits->fields) {
      if (!IsGpu(limit.name) && !limit.name.ends_with("/gpu")) continue;
      const Result<Quantity> count = ParseQuantity(limit.value.text);
      if (count.ok()) out += count->value;
    }
  }
  return out;
}

PodSeen ReadStart(const Node& pod) {
  PodSeen out;
  out.name = TextAt(pod, {"metadata", "name"});
  out.containers_ready = IsTrue(pod, "ContainersReady");
  if (!out.containers_ready) out.unready_since = TransitionOf(pod, "ContainersReady");
  out.unplaceable = UnplaceableMessage(pod);
  if (!out.unplaceable.empty()) out.unplaceable_since = TransitionOf(pod, "PodScheduled");
  ReadContainers(pod, out);
  return out;
}

std::optional<PodSeen> ReadPod(const Node& pod) {
  PodSeen out = ReadStart(pod);
  const std::optional<int64_t> id = PodIdOf(out.name);
  const std::optional<Role> role = RoleNamed(TextAt(pod, {"metadata", "labels", kRoleLabel}));
  if (!id || !role) return std::nullopt;
  out.uid = UidOf(pod);
  out.version = ResourceVersionOf(pod);
  out.role = *role;
  out.id = *id;
  out.revision = TextAt(pod, {"metadata", "labels", kRevisionLabel});
  out.instances = InstancesOfPod(TextAt(pod, {"metadata", "labels", kInstancesLabel}));
  out.shares_host = TextAt(pod, {"metadata", "labels", kHostSharedLabel}) == "true";
  out.model = TextAt(pod, {"metadata", "labels", kModelLabel});
  out.pool = PoolOf(pod);
  out.has_pool_label = !TextAt(pod, {"metadata", "labels", kPoolLabel}).empty();
  out.has_member_label = TextAt(pod, {"metadata", "labels", kMemberLabel}) == "true";
  out.node = TextAt(pod, {"spec", "nodeName"});
  out.ip = TextAt(pod, {"status", "podIP"});
  out.has_member_gate = IsTrue(pod, kMemberCondition);
  out.is_ready = IsTrue(pod, "Ready");
  out.is_leaving = FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  const std::string_view phase = TextAt(pod, {"status", "phase"});
  out.has_ended = phase == "Failed" || phase == "Succeeded";
  if (out.has_ended) {
    out.ended_because = TextAt(pod, {"status", "reason"});
    if (const std::string_view words = TextAt(pod, {"status", "message"}); !words.empty()) {
      out.ended_because += (out.ended_because.empty() ? "" : ": ") + std::string(words);
    }
  }
  if (IsTrue(pod, "DisruptionTarget")) out.must_leave = "the pod is to be disrupted";
  if (const auto created = ParseTime(TextAt(pod, {"metadata", "creationTimestamp"}));
      created.ok()) {
    out.created = *created;
  }
  if (const Node* const volumes = FindAt(pod, {"spec", "volumes"})) {
    out.uses_tls = std::any_of(volumes->items.begin(), volumes->items.end(), [](const Node& one) {
      return TextAt(one, {"name"}) == kTrustVolume;
    });
  }
  out.gpus = GpusOf(pod);
  return out;
}

std::vector<int> RoleWanted::Sizes() const {
  std::vector<int> out(static_cast<size_t>(instances / per_pod), per_pod);
  if (instances % per_pod != 0) out.push_back(instances % per_pod);
  return out;
}

std::vector<int> RoleWanted::AllSizes() const {
  std::vector<int> out = Sizes();
  if (!out.empty()) out.insert(out.begin(), static_cast<size_t>(standby), out.front());
  return out;
}

std::string WhyEnded(const PodSeen& pod) {
  if (pod.ended_because.empty()) return "its containers have ended";
  return "it has failed: " + pod.ended_because;
}

bool EndedAtOnce(const PodSeen& pod, WallTime now, const std::set<std::string>& committed) {
  return pod.has_ended && !pod.is_leaving && !pod.is_lost && !committed.contains(pod.uid) &&
         pod.created + kFailedPause > now;
}

PodPlan PlanPods(std::span<const PodSeen> pods, const RoleWanted& wanted,
                 const std::set<std::string>& committed) {
  PodPlan plan;
  std::vector<const PodSeen*> live;
  WallTime youngest;
  for (const PodSeen& pod : pods) {
    youngest = std::max(youngest, pod.created);
    if (pod.is_live()) live.push_back(&pod);
  }
  const bool may_replace = youngest + kCrashPause <= wanted.now;
  const auto has_never_served = [&](const PodSeen& pod) {
    return committed.empty() && !wanted.revision.empty() && pod.is_live() && IsOld(pod, wanted);
  };
  std::erase_if(live, [&](const PodSeen* pod) { return has_never_served(*pod); });
  // It is replaced at once, but deleted only after a topology without it serves.
  if (may_replace) std::erase_if(live, [](const PodSeen* pod) { return !pod->crash_loop.empty(); });
  for (const PodSeen& pod : pods) {
    if (pod.is_leaving || committed.contains(pod.uid)) continue;
    if (EndedAtOnce(pod, wanted.now, committed)) continue;
    if (has_never_served(pod)) {
      plan.remove.push_back({pod.name, pod.uid, WhyRemoved(pod, wanted)});
    } else if (pod.has_ended) {
      plan.remove.push_back({pod.name, pod.uid, WhyEnded(pod)});
    } else if (pod.is_lost) {
      plan.remove.push_back({pod.name, pod.uid, "node " + pod.node + " is lost"});
    } else if (!pod.crash_loop.empty() && may_replace) {
      plan.remove.push_back({pod.name, pod.uid, "its worker keeps ending: " + pod.crash_loop});
    }
  }
  std::sort(live.begin(), live.end(), [&](const PodSeen* a, const PodSeen* b) {
    return KeepOrder(*a, wanted, committed.contains(a->uid)) <
           KeepOrder(*b, wanted, committed.contains(b->uid));
  });
  std::vector<const PodSeen*> members = ChooseMembers(live, wanted);
  const Fitting fitting = FitSizes(live, wanted);
  int create = CountToCreate(live, fitting, static_cast<int>(members.size()), wanted);
  plan.sizes = fitting.missing;
  for (const PodSeen& pod : pods) {
    if (EndedAtOnce(pod, wanted.now, committed) && TakeSize(plan.sizes, pod.instances)) --create;
  }
  plan.sizes.resize(static_cast<size_t>(std::max(create, 0)));

  plan.may_go = MayGo(live, members, wanted);
  // A topology without them serves.
  std::erase_if(members, [&](const PodSeen* pod) {
    if (committed.empty() || committed.contains(pod->uid)) return false;
    if (plan.may_go.erase(pod->uid) == 0) return false;
    plan.remove.push_back({pod->name, pod->uid, pod->must_leave});
    return true;
  });
  // No pod is deleted before all members serve, because it may still be needed.
  const bool settled = InstancesOf(members) >= wanted.instances &&
                       std::all_of(members.begin(), members.end(), [&](const PodSeen* pod) {
                         return committed.contains(pod->uid);
                       });
  // The replacement of a crash-looping member may crash-loop too. It stays for its pause: otherwise
  // no pod would be young, and another would start at once.
  auto replacements = std::count_if(live.begin(), live.end(), [&](const PodSeen* pod) {
    return committed.contains(pod->uid) && !pod->crash_loop.empty();
  });
  for (const PodSeen* pod : live) {
    const bool is_member = std::find(members.begin(), members.end(), pod) != members.end();
    if (is_member || fitting.pods.contains(pod) || committed.contains(pod->uid)) continue;
    if (!pod->crash_loop.empty() && replacements-- > 0) continue;
    // A surplus pod that does not serve is deleted without waiting.
    const bool is_surplus = IsGood(*pod, wanted) && fitting.missing.empty();
    if (settled || !pod->containers_ready || is_surplus) {
      plan.remove.push_back({pod->name, pod->uid, WhyRemoved(*pod, wanted)});
    }
  }
  std::sort(members.begin(), members.end(),
            [](const PodSeen* a, const PodSeen* b) { return a->id < b->id; });
  for (const PodSeen* pod : members) plan.members.push_back(pod->uid);
  return plan;
}

}  // namespace janus::control
