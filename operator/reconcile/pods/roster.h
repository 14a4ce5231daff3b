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

// Maps pods to serving instances. An instance's incarnation is the restart count of its container.
// The supervisor of a pod of several instances restarts one of them without a new incarnation: the
// epoch is then lost, and the next one prepares the new process.

// `index`: 0 to pod.instances - 1.
InstanceId InstanceOf(const PodSeen& pod, int index = 0);

// Addresses of one of a pod's workers: WorkerAtPodIp on a cluster, sockets on one machine.
using LocateWorker = std::function<WorkerSeen(const PodSeen& pod, int index)>;
// Instances of one pod are one node of the exchange, and share memory.
WorkerSeen WorkerAtPodIp(const PodSeen& pod, int index);

// Every instance that could be or stay a member. An instance with a briefly unready container is
// included; a restarted container is another instance.
std::set<InstanceId> AliveInstances(std::span<const PodSeen> pods);

// How long the next epoch waits for a pod to become ready.
inline constexpr std::chrono::seconds kAwaitedFor{600};

// The pod that the next epoch should wait for, so that pods that start at about the same time join
// in one epoch; empty: none. No epoch waits for a pod that cannot be scheduled, crash-loops, cannot
// start its containers, or is older than kAwaitedFor. (The caller does not wait if a member is
// lost, because requests wait for it.) `members` is PodPlan's, `wanted` the role's. Pure.
std::string AwaitedPod(std::span<const PodSeen> pods, const RoleWanted& wanted,
                       const std::vector<std::string>& members);

// How long an epoch waits for a briefly unready member even if another is lost. A container
// restarts within seconds; one epoch without it and another with it would take longer.
inline constexpr std::chrono::seconds kRestartAwaitedFor{10};

// The pod of the committed topology that the next epoch should wait for although a member is lost,
// and until when; nothing: none. Skips crash-looping pods. `committed`: uids. Pure.
struct RestartingPod {
  std::string name;
  WallTime until;
};
std::optional<RestartingPod> AwaitedRestart(std::span<const PodSeen> pods, const RoleWanted& wanted,
                                            const std::vector<std::string>& members,
                                            const std::set<std::string>& committed);

}  // namespace janus::control
