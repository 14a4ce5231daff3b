#include "operator/reconcile/pods/roster.h"

#include <algorithm>

#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {

InstanceId InstanceOf(const PodSeen& pod, int index) {
  return {pod.role, pod.uid, index, pod.restarts};
}

WorkerSeen WorkerAtPodIp(const PodSeen& pod, int index) {
  const bool is_v6 = pod.ip.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + pod.ip + "]" : pod.ip;
  WorkerSeen out;
  out.role = pod.role;
  out.pod_uid = pod.uid;
  out.index = index;
  out.incarnation = pod.restarts;
  // Names of pods have no slash.
  out.node = pod.shares_host ? "machine/" + pod.node : pod.name;
  out.domain = out.node;
  const int port = kGrpcPort + kPortsPerInstance * index;
  out.address = host + ":" + std::to_string(port);
  out.exchange_address = "tcp:" + host + ":" + std::to_string(port + 1);
  // For the instances with which it shares memory.
  if (pod.shares_host) {
    out.exchange_address +=
        ",unix:" + std::string(kHostMount) + "/" + pod.uid + "-" + std::to_string(index);
  } else if (pod.instances > 1) {
    out.exchange_address +=
        ",unix:" + std::string(kSocketsMount) + "/exchange-" + std::to_string(index);
  }
  return out;
}

std::set<InstanceId> AliveInstances(std::span<const PodSeen> pods) {
  std::set<InstanceId> out;
  for (const PodSeen& pod : pods) {
    if (!pod.is_live() || pod.ip.empty()) continue;
    for (int index = 0; index < pod.instances; ++index) out.insert(InstanceOf(pod, index));
  }
  return out;
}

namespace {

// Whether the members have as many instances as the role wants.
bool AreEnough(std::span<const PodSeen> pods, const RoleWanted& wanted,
               const std::vector<std::string>& members) {
  int instances = 0;
  for (const PodSeen& pod : pods) {
    if (std::ranges::find(members, pod.uid) != members.end()) instances += pod.instances;
  }
  return instances >= wanted.instances;
}

}  // namespace

std::string AwaitedPod(std::span<const PodSeen> pods, const RoleWanted& wanted,
                       const std::vector<std::string>& members) {
  if (AreEnough(pods, wanted, members)) return "";
  for (const PodSeen& pod : pods) {
    const bool is_coming = pod.is_live() && !pod.containers_ready && pod.unplaceable.empty() &&
                           pod.crash_loop.empty() && pod.not_starting.empty() &&
                           pod.created + kAwaitedFor > wanted.now;
    if (is_coming) return pod.name;
  }
  return "";
}

std::optional<RestartingPod> AwaitedRestart(std::span<const PodSeen> pods, const RoleWanted& wanted,
                                            const std::vector<std::string>& members,
                                            const std::set<std::string>& committed) {
  if (AreEnough(pods, wanted, members)) return std::nullopt;
  for (const PodSeen& pod : pods) {
    const WallTime until = pod.unready_since + kRestartAwaitedFor;
    // A clock far ahead must not make us wait that long.
    const bool is_recent =
        until > wanted.now && pod.unready_since < wanted.now + kRestartAwaitedFor;
    // One that has started and is not ready hangs. It returns only after its liveness probe.
    const bool is_restarting = pod.is_live() && !pod.containers_ready && !pod.has_started &&
                               pod.crash_loop.empty() && committed.contains(pod.uid) && is_recent;
    if (is_restarting) return RestartingPod{pod.name, until};
  }
  return std::nullopt;
}

}  // namespace janus::control
