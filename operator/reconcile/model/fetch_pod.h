#pragma once

#include <string>
#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {

// The value of app.kubernetes.io/component on Jobs and their pods, and the container's name there
// and in pods that fetch for themselves.
inline constexpr std::string_view kFetch = "fetch";
// Where a Job's pod tells the operator how far it is (proto/fetch.proto). The port of workers, so
// that policies for the operator's calls hold for these too.
inline constexpr int kFetchPort = kGrpcPort;

// The container that fetches into the volume "model". `reader`: as in `janus-worker fetch --for`.
// The hub's token is in this container alone. `is_on_node`: the volume is a folder of the node, so
// the container runs as root, without capabilities. Pure, like all functions here.
Node FetchContainer(const MoEService& service, const OperatorDefaults& defaults,
                    std::string_view image, std::string_view reader, const std::string& revision,
                    bool is_on_node);

// The Job that fetches the model, for POST. With cache PersistentVolumeClaim it fills the claim.
// Otherwise it fetches the small files into a folder of its own, and so finds the commit. `commit`:
// of the spec's revision, if it is known; empty: the Job resolves it. A container that fails is
// started again, with the kubelet's growing pauses, and continues where it was.
Node FetchJob(const MoEService& service, const OperatorDefaults& defaults,
              const std::string& commit);

// The Jobs' NetworkPolicy. Their pods accept the operator's questions alone, and reach DNS, port
// 443 and the port of the hub's endpoint.
Child FetchPolicy(const MoEService& service, const OperatorDefaults& defaults);

}  // namespace janus::control
