#include "operator/reconcile/status/reasons.h"

#include <algorithm>

namespace janus::control {
namespace {

constexpr ConditionMeaning kConditions[] = {
    {"Ready",
     "the endpoint answers, and both roles and the topology are as the newest generation wants"},
    {"Available",
     "a gateway answers and a committed topology serves; `kubectl wait` for this one if you only "
     "call the endpoint"},
    {"Progressing", "the service is as wanted, or is getting closer"},
    {"AttentionReady", "as many attention instances serve as are wanted"},
    {"ExpertsReady", "as many expert instances serve as are wanted"},
    {"TopologyReady", "a topology is committed and complete, and its members know it"},
    {"ScalingReady", "the counts follow the source that the spec names"},
    {"MetricsAvailable", "all members of the committed topology report their counters"},
    {"SLOMet",
     "enough of the requests that ended in the last five minutes kept the targets of `spec.slo`"},
    {"CapacityAvailable", "everything that is wanted has room"},
    {"Stalled",
     "nothing changes until you edit the object; the only condition for which True is bad"},
};

constexpr ReasonMeaning kReasons[] = {
    {"True", "AsWanted", "Ready, AttentionReady, ExpertsReady", "all instances serve", ""},
    {"True", "Serving", "Available", "the endpoint answers", ""},
    {"True", "Complete", "Progressing", "there is nothing to do", ""},
    {"True", "Working", "Progressing",
     "the operator creates what is wanted; if the API server refuses a call for ten seconds, its "
     "words are in the message",
     "what the message names, if anything: a webhook that does not answer, a missing right"},
    {"True", "Committed", "TopologyReady", "the named epoch serves", ""},
    {"True", "Static", "ScalingReady", "the counts are those of the spec", ""},
    {"True", "External", "ScalingReady",
     "the counts of the named roles are those that their MoERoleScalers ask for", ""},
    {"True", "AtMin", "ScalingReady",
     "a MoERoleScaler or a decision asks for fewer than `minReplicas`, the model or `ratio` allow; "
     "the message or `limitedBy` says which",
     "ask for more, or lower `minReplicas`"},
    {"True", "AtMax", "ScalingReady",
     "a MoERoleScaler or a decision asks for more than `maxReplicas`, `maxGPUs` or `ratio` allow",
     "raise the bound that the message or `limitedBy` names, or ask for fewer"},
    {"False", "Paused", "ScalingReady",
     "the spec, a MoERoleScaler or a decision asks for another count, and `spec.paused` keeps it "
     "as "
     "it is",
     "set `spec.paused: false`"},
    {"True", "Satisfied", "ScalingReady",
     "the counts keep the targets, and no cheaper counts keep them", ""},
    {"True, False", "SLOViolated", "ScalingReady, SLOMet",
     "SLOMet: fewer requests kept the targets than `slo.*.percentile` asks for. ScalingReady: the "
     "last decision was for more instances because the targets are missed",
     "in mode SLO nothing; else add instances"},
    {"True", "SLOAtRisk", "ScalingReady",
     "the last decision was for more instances: the targets would be missed before new instances "
     "serve",
     ""},
    {"True", "MemoryShort", "ScalingReady",
     "the last decision was for more instances: keys and values, or sequences, do not fit", ""},
    {"True", "OutOfBounds", "ScalingReady",
     "the last decision brought the counts within the bounds of the spec", ""},
    {"True", "Cheaper", "ScalingReady",
     "the last decision was for fewer or cheaper instances, which keep the targets", ""},
    {"True", "Unplaceable", "ScalingReady",
     "the last decision gave up instances that did not start in time",
     "give the cluster room, or lower `maxReplicas`"},
    {"True", "NoLongerNeeded", "ScalingReady",
     "the last decision gave up instances that were late and are not needed any more", ""},
    {"True", "Stabilizing", "ScalingReady",
     "fewer instances would suffice, but not yet for the whole window of `behavior.scaleDown`, or "
     "the service is new",
     ""},
    {"True", "ScalingInProgress", "ScalingReady", "instances of the last decision are starting",
     ""},
    {"True", "RateLimited", "ScalingReady",
     "the policies of `behavior` allow no further change in this period", "wait, or relax them"},
    {"True", "Rollout", "ScalingReady", "nothing is decided while a rollout replaces pods", ""},
    {"True", "Advisory", "ScalingReady",
     "`spec.scaling.advisory` is true: the message says what would be done", ""},
    {"False", "ImpossibleSLO", "ScalingReady",
     "no allowed counts keep the targets, not even for one request; the message says what the best "
     "counts give",
     "raise the target, or use other hardware"},
    {"False", "ModelError", "ScalingReady",
     "the target is missed, since the devices are slower than decisions can learn; the counts stay "
     "while enough requests or steps show it",
     "correct the HardwareProfile, or what slows them"},
    {"False, Unknown", "NoMetrics", "ScalingReady, SLOMet",
     "counters of the named member or gateway are missing; the counts stay",
     "what the message names; workers and gateways of an older version do not count"},
    {"False", "NoProfile", "ScalingReady", "the speed of the workers' device is not known",
     "create a HardwareProfile, or name one in `roles.*.hardwareProfile`"},
    {"False", "BadStatistics", "ScalingReady",
     "a member or gateway reports an impossible number; the counts stay",
     "report it with the message; restart what it names"},
    {"False", "InvalidPolicy", "ScalingReady",
     "the scaling fields of the spec contradict each other", "change what the message names"},
    {"Unknown", "NotDecided", "ScalingReady", "no decision was made yet", ""},
    {"True", "Sufficient", "CapacityAvailable", "nothing waits for room", ""},
    {"True, False", "Suspended", "Ready, Available, AttentionReady, ExpertsReady, TopologyReady",
     "`spec.suspend` is true, or a role has no replicas: there are no workers, on purpose",
     "set `spec.suspend: false`, or replicas"},
    {"False", "GatewayNotReady", "Ready, Available",
     "no gateway pod is ready; the message says so if they lack a node or an image",
     "`kubectl describe` the Deployment `<service>-gateway`, its ReplicaSet and its pods; their "
     "log"},
    {"False", "NoTopology", "Ready, Available, TopologyReady",
     "nothing serves yet: workers start, or load", "wait; the message of the other conditions"},
    {"False", "TopologyNotReady", "Ready, Available",
     "the committed topology does not serve at present; the message is TopologyReady's",
     "see the reason of TopologyReady"},
    {"False", "Preparing", "Ready, TopologyReady",
     "members load and connect, or do not know yet that the epoch is committed", ""},
    {"False", "PrepareFailed", "Ready, TopologyReady",
     "a member refused to load or to connect, in its own words; the operator retries with pauses "
     "of up to a minute",
     "fix what the message names: a file, a size, a configuration "
     "([troubleshooting](troubleshooting.md))"},
    {"False", "WorkerUnreachable", "Ready, TopologyReady",
     "a member does not answer at the named address; the operator retries",
     "its pod: does it run, is its node reached, does a NetworkPolicy block it?"},
    {"False", "EpochLost", "Ready, TopologyReady",
     "live members cannot go on with each other (a connection broke, or a member hung); the "
     "operator prepares an epoch of the same members",
     "nothing at once; if it repeats: the named member, its node, its network"},
    {"False", "MemberLost", "Ready, TopologyReady",
     "a member of the epoch has gone; the others hold their requests for the next epoch", ""},
    {"False", "WaitingForPods", "Ready, AttentionReady, ExpertsReady, TopologyReady",
     "a pod is not ready yet, or restarts, or there are too few pods for the model",
     "the pod that the message names"},
    {"True, False", "Recreating", "Ready, Progressing, TopologyReady",
     "the model has changed and `spec.rollout.type` is Recreate: the old pods drain and go, then "
     "the new ones come; gateways hold requests meanwhile",
     "wait; `spec.rollout.drainSeconds` bounds the first part"},
    {"True, False", "Replacing", "Ready, Progressing",
     "the model has changed: the new model's pods start beside the old ones, which serve until the "
     "new ones do, and then finish their answers",
     "wait; CapacityAvailable says so if there is no room for both. "
     "`spec.rollout.drainSeconds` bounds the last part"},
    {"False", "CrashLooping", "Ready, AttentionReady, ExpertsReady",
     "a worker keeps ending; the message has its last words, and how it ended (`OOMKilled`, an "
     "exit code). The operator replaces it once in ten minutes",
     "fix what the last words name; after `OOMKilled` raise `resources.limits.memory` of the "
     "role"},
    {"False", "ContainerNotStarting", "Ready, AttentionReady, ExpertsReady",
     "a container of a pod cannot be started, in the kubelet's words: an image that cannot be "
     "pulled (`ErrImagePull`, `ImagePullBackOff`), a missing Secret or ConfigMap "
     "(`CreateContainerConfigError`), a sidecar that keeps ending. No epoch waits for it",
     "what the kubelet says: `image`, `imagePullSecrets`, the chart's registry, `podTemplate`"},
    {"False", "ModelUnknown", "Ready, TopologyReady",
     "the needs of the model, or the room for it, are not known yet: on a cluster the first worker "
     "of each role reports them, on one machine its folder",
     "the pod that the message names, or the path"},
    {"False", "ModelNotFound", "Ready, TopologyReady",
     "a worker, or on one machine the operator, finds no model at the path of "
     "`spec.model.source`; the message has the path as the worker sees it, and the names beside it",
     "correct the path: pods that never served are replaced at once. Or put the model there: the "
     "operator asks again every two seconds"},
    {"True, False", "FetchingModel", "Ready, Progressing, TopologyReady",
     "a Job fetches the model from the hub; the message names it and says how far it is. What "
     "serves "
     "goes on meanwhile",
     "wait"},
    {"False", "ModelFetchFailed", "Ready, Progressing, TopologyReady",
     "the model cannot be fetched, in the words of the program, the kubelet or the scheduler. It "
     "is tried again, and continues where it was",
     "what the message says"},
    {"False", "InsufficientCapacity",
     "Ready, Progressing, AttentionReady, ExpertsReady, ScalingReady, CapacityAvailable",
     "no node takes a pod, in the scheduler's words, or the service needs more memory than a "
     "machine or a pod of the named role has, in figures. Serving pods go on. An edit without room "
     "waits; Ready is False until there is room or you revert the edit",
     "what the message says: `resources` of the role, `kvCache`, `maxBatchSize`, replicas, or more "
     "room"},
    {"False", "QuotaExceeded", "Ready, Available, AttentionReady, ExpertsReady, CapacityAvailable",
     "a ResourceQuota refuses a pod or another object, in the server's words; the operator retries "
     "with pauses of up to five minutes, and at once after an edit or when a pod has gone",
     "raise the quota, or ask for less"},
    {"False", "AdmissionDenied",
     "Ready, Available, AttentionReady, ExpertsReady, CapacityAvailable",
     "a LimitRange, a policy or a webhook of the cluster denies a pod or another object, in the "
     "server's words; the operator retries with pauses of up to five minutes, and at once after an "
     "edit",
     "add what it asks for to the role's `resources` or `podTemplate`, or exempt the namespace"},
    {"False", "AdoptRefused", "Ready, Available, Progressing, ScalingReady",
     "a foreign object has the name of one of ours, and the operator does not touch it. Available "
     "is False if it is the Service that clients call",
     "delete or rename that object"},
    {"False", "EmulationLate", "ScalingReady",
     "more than 10 % of the results of timed devices came late since the last decision; the counts "
     "stay",
     "what the message says"},
    {"False", "AutoscalerIgnored", "ScalingReady",
     "the named HorizontalPodAutoscaler scales the MoERoleScaler of a role that is not in mode "
     "External, so it has no effect",
     "set `roles.*.scaling.mode: External`, or delete it"},
    {"False", "CertificatesRefused", "Progressing",
     "the server refuses a Secret of the service's certificates, in its words. The operator "
     "retries, and the service goes on with its present certificates until the named time; a role "
     "without one waits",
     "what the message names: a webhook, a policy, a quota, the operator's rights"},
    {"False", "AnotherOperator", "Progressing",
     "the operator of another release watches the service too. The release in `status.operator` "
     "keeps it; the other writes nothing, and takes over a minute after the first has gone",
     "uninstall one of the named releases, or give them different namespaces: `watchNamespaces` or "
     "`namespaced` of the chart"},
    {"False", "ProgressDeadlineExceeded", "Progressing", "nothing has changed for ten minutes",
     "the conditions that are False"},
    {"True, False", "InvalidSpec", "Ready, Progressing, AttentionReady, ExpertsReady, Stalled",
     "the spec can never be carried out, with the path of the field; or the server refuses what it "
     "asks for, in its words",
     "change the spec"},
    {"True, False", "NotSupported", "Ready, Progressing, AttentionReady, ExpertsReady, Stalled",
     "the spec asks for what this version does not do: [not-supported](not-supported.md)",
     "change the spec"},
    {"True, False", "InvalidTopology", "Ready, Progressing, AttentionReady, ExpertsReady, Stalled",
     "an edit has made the MoETopology unreadable",
     "delete it: the operator creates another one, and new workers"},
    {"False", "Reconciling", "Stalled", "the spec can be carried out", ""},
    {"True", "Collected", "MetricsAvailable",
     "the numbers of the status cover all members, and are at most a minute old", ""},
    {"False", "MembersSilent", "MetricsAvailable",
     "the named member has not reported its counters for twenty seconds, for the reason in the "
     "message. It may still serve; the status keeps its last numbers",
     "its pod: does it run, is its node reached, does a NetworkPolicy block it?"},
    {"Unknown", "NotCollected", "MetricsAvailable", "no instance serves, or none has reported yet",
     ""},
    {"True", "Met", "SLOMet",
     "of the requests that ended in the last five minutes, at least the share of "
     "`slo.*.percentile` kept the targets",
     ""},
    {"Unknown", "NoTarget", "SLOMet", "`spec.slo.tpot` is not set", ""},
    {"Unknown", "NoTraffic", "SLOMet", "fewer than ten requests ended in the last five minutes",
     ""},
};

constexpr EventMeaning kEvents[] = {
    {"Created", "the operator created a pod or another object"},
    {"Updated", "the operator corrected an object of the service"},
    {"Deleted", "the operator deleted an object that is not wanted any more"},
    {"Draining", "a pod leaves, and why"},
    {"Drained", "a pod that left has ended and is gone"},
    {"ScaledUp", "a role wants more instances, and why"},
    {"ScaledDown", "a role wants fewer, and why"},
    {"MicroBatchesChanged", "a step gets another number of parts, and why"},
    {"TopologyPrepared", "all members have loaded and connected for the epoch"},
    {"TopologyCommitted", "the epoch serves from now on"},
    {"TopologyEnded",
     "the epoch serves no more, and why; the next one waits until its pods are gone"},
    {"TopologyAborted", "the epoch is given up, and why"},
    {"TopologyLost", "the committed epoch cannot go on though its members live, and why"},
    {"ExchangeModeChanged", "a new epoch has another exchange mode or gate, and why"},
    {"PlacementChanged", "a new epoch has experts on other instances, and how many copies moved"},
    {"MetricsUnavailable", "a member does not report its counters"},
    {"AdoptRefused", "a foreign object has the name of one of ours"},
    {"SLOViolated", "fewer requests keep the targets than should, with the shares"},
    {"SLORestored", "enough requests keep the targets again"},
    {"InvalidSpec", "the spec cannot be carried out"},
    {"InsufficientCapacity", "something has no room"},
    {"CrashLooping", "a worker keeps ending, with its last words"},
    {"ModelFetching", "a Job fetches the model from the hub"},
    {"ModelFetched", "the model is there, with its commit and bytes"},
    {"ModelFetchFailed", "the model cannot be fetched, and why"},
    {"CertificatesRefused", "certificates are due, and the server refuses them"},
    {"AnotherOperator",
     "an operator leaves the service to the named release, which watches it too"},
};

// True if `one` is in a list separated by ", ".
bool IsIn(std::string_view names, std::string_view one) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(", "), names.size());
    if (names.substr(0, end) == one) return true;
    names.remove_prefix(std::min(end + 2, names.size()));
  }
  return false;
}

}  // namespace

std::span<const ConditionMeaning> ConditionMeanings() {
  return kConditions;
}
std::span<const ReasonMeaning> ReasonMeanings() {
  return kReasons;
}
std::span<const EventMeaning> EventMeanings() {
  return kEvents;
}

bool IsKnownReason(std::string_view type, std::string_view status, std::string_view reason) {
  return std::any_of(std::begin(kReasons), std::end(kReasons), [&](const ReasonMeaning& one) {
    return one.reason == reason && IsIn(one.types, type) && IsIn(one.statuses, status);
  });
}

bool IsKnownEvent(std::string_view reason) {
  return std::any_of(std::begin(kEvents), std::end(kEvents),
                     [&](const EventMeaning& one) { return one.reason == reason; });
}

std::string ConditionsPage() {
  std::string out =
      "# Conditions and Events\n\n"
      "Look up here what `kubectl describe moesvc` (or `janusctl describe`) shows, and what to do. "
      "A service is well\n"
      "when Ready is True. `observedGeneration` of a condition is the generation of the object "
      "that "
      "it describes.\n\n"
      "| condition | True means |\n|---|---|\n";
  for (const ConditionMeaning& one : kConditions) {
    out += "| `" + std::string(one.type) + "` | " + std::string(one.when_true) + " |\n";
  }
  out +=
      "\n## Reasons\n\nThe message of a condition is the reason in full, with names and "
      "figures.\n\n"
      "| reason | of | status | it means | what to do |\n|---|---|---|---|---|\n";
  for (const ReasonMeaning& one : kReasons) {
    out += "| `" + std::string(one.reason) + "` | " + std::string(one.types) + " | " +
           std::string(one.statuses) + " | " + std::string(one.meaning) + " | " +
           std::string(one.remedy) + " |\n";
  }
  out += "\n## Events\n\n| reason | meaning |\n|---|---|\n";
  for (const EventMeaning& one : kEvents) {
    out += "| `" + std::string(one.reason) + "` | " + std::string(one.meaning) + " |\n";
  }
  return out;
}

}  // namespace janus::control
