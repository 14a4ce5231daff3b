#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/reconcile/epochs/compose.h"
#include "operator/reconcile/epochs/next_step.h"
#include "operator/reconcile/pods/pods.h"

namespace janus::control {

// From pods to the instances that serve: one per pod in this version, whose incarnation is how
// often its container was started again.

InstanceId InstanceOf(const PodSeen& pod);

// Where the worker of a pod is reached: on a cluster WorkerAtPodIp, on one machine its sockets.
using LocateWorker = std::function<WorkerSeen(const PodSeen& pod)>;
WorkerSeen WorkerAtPodIp(const PodSeen& pod);

// Every instance that could be or stay a member. One whose container is not ready for a moment may
// be: a restarted one is another instance.
std::set<InstanceId> AliveInstances(std::span<const PodSeen> pods);

// How long a pod may take to be ready before the others go on without it.
inline constexpr std::chrono::seconds kAwaitedFor{600};

// The pod for which the next epoch should wait, so that pods which come at about the same time join
// in one epoch; empty: none. No epoch waits for a pod that no node takes, that crash-loops, whose
// containers cannot be started, or that is older than kAwaitedFor. (A service that has lost a
// member does not wait, as requests wait for it: the caller's part.) `members` is PodPlan's,
// `wanted` the role's. Pure.
std::string AwaitedPod(std::span<const PodSeen> pods, const RoleWanted& wanted,
                       const std::vector<std::string>& members);

// How long an epoch waits for a member that is not ready for a moment, whatever else is lost. A
// container that ended is back in seconds, and an epoch without it and another one with it would
// take longer than one.
inline constexpr std::chrono::seconds kRestartAwaitedFor{10};

// For which pod of the committed topology the next epoch should wait although a member is lost, and
// until when; nothing: for none. Not those that crash-loop. `committed`: uids. Pure.
struct RestartingPod {
  std::string name;
  WallTime until;
};
std::optional<RestartingPod> AwaitedRestart(std::span<const PodSeen> pods, const RoleWanted& wanted,
                                            const std::vector<std::string>& members,
                                            const std::set<std::string>& committed);

}  // namespace janus::control
