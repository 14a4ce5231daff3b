#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/topology.h"
#include "operator/api/tree.h"

namespace janus::control {

inline constexpr int kMostInstancesPerPod = 8;

// The fewest pods of at most `per_pod` instances that have so many.
constexpr int PodCount(int instances, int per_pod) {
  return (instances + per_pod - 1) / per_pod;
}

// A worker pod as observed.
struct PodSeen {
  std::string name;
  std::string uid;
  std::string version = {};  // resourceVersion
  Role role = Role::kAttention;
  std::string revision;
  int64_t id = 0;
  int instances = 1;              // for its life (kInstancesLabel)
  bool shares_host = false;       // likewise (kHostSharedLabel)
  std::string node = {};          // empty: not scheduled yet
  std::string ip = {};            // empty: not assigned yet
  bool containers_ready = false;  // it can be prepared
  WallTime unready_since = {};    // if not ready: since when, by its node's clock
  int pool = 1;                   // its label (kPoolLabel)
  bool has_pool_label = false;
  bool has_member_label = false;
  bool has_member_gate = false;    // its readiness gate is True
  bool is_ready = false;           // according to the kubelet, including the gate
  bool is_leaving = false;         // being deleted
  bool has_ended = false;          // its containers will not run again
  std::string ended_because = {};  // in the kubelet's words; empty: no reason given
  int restarts = 0;                // of its worker container
  bool has_started = false;        // this run of that container: its startup probe has succeeded
  // Its worker crashes repeatedly: its last words, and how it ended.
  std::string crash_loop;
  // One of its containers cannot start, for example because an image or a Secret is missing; the
  // reason in the kubelet's words.
  std::string not_starting = {};
  bool fetches = false;  // its init container fetches weights
  // No node fits; the reason in the scheduler's words, and since when.
  std::string unplaceable;
  WallTime unplaceable_since = {};
  WallTime created;
  std::string model;      // its label (ModelLabelOf)
  bool uses_tls = false;  // its connections use mutual TLS

  int64_t gpus = 0;  // its GPU limit (GpusOf)

  // From its node (JudgeByNodes): why the pod must leave although it serves ("node a is cordoned").
  std::string must_leave;
  // Its node has been silent for so long that a replacement is due.
  bool is_lost = false;

  // It runs or will run, and is not given up.
  bool is_live() const { return !is_leaving && !has_ended && !is_lost; }
  int64_t held_gpus() const { return node.empty() || has_ended || is_lost ? 0 : gpus; }
};

// GPUs in the limits of its containers: NVIDIA's (IsGpu), where a slice or a share counts as one,
// and other resources named gpu ("amd.com/gpu"). Pure.
int64_t GpusOf(const Node& pod);

// Of any pod, also one that is no worker: its name, and why it is not ready or does not start.
PodSeen ReadStart(const Node& pod);

// Reads the fields of a pod that decisions use. Nothing: it has no role, or no id in its name.
std::optional<PodSeen> ReadPod(const Node& pod);

// What a role wants.
struct RoleWanted {
  int instances = 0;     // that serve
  int per_pod = 1;       // at most so many in a pod: 14 of 8 are pods of 8 and 6
  int standby = 0;       // extra pods that are kept ready
  bool shrinks = false;  // a pod that must leave may go without a replacement if none can be placed
  std::string revision;
  bool rolls = true;  // replace pods of other revisions; false while paused
  WallTime now;

  // Pods that serve.
  int pods() const { return PodCount(instances, per_pod); }
  // The instances of each of them, largest first.
  std::vector<int> Sizes() const;
  int all() const { return instances == 0 ? 0 : pods() + standby; }
  // With those of the standby pods, which can replace any other.
  std::vector<int> AllSizes() const;
};

// For an ended pod: "its containers have ended", or "it has failed: Evicted: no memory".
std::string WhyEnded(const PodSeen& pod);

struct PodRemoval {
  std::string name;
  std::string uid;
  std::string reason;  // for the Event
};

struct PodPlan {
  // Pods to create, of the wanted revision: the instances of each, largest first.
  std::vector<int> sizes = {};
  int create() const { return static_cast<int>(sizes.size()); }
  // The pods for the next topology, lowest id first; all can be prepared.
  std::vector<std::string> members;  // uids
  // Of these, pods that must leave and have no replacement: the next topology is without them if it
  // can still hold the model.
  std::set<std::string> may_go;
  // Never pods of the committed topology.
  std::vector<PodRemoval> remove;
};

// The pods of one role: which to create, which should serve, which to delete. `committed`: uids of
// the committed topology's pods. Pure; the same input gives the same result:
//
// - Pods that fail are replaced at once; ended and lost pods are removed. A pod that a kubelet
//   rejects is recreated only after kFailedPause, since the scheduler may choose the same node
//   again.
// - Pods that must leave, and pods of other revisions, serve until replacements do. Replacements
//   start all at once for pods that must leave. In a rollout there is one pod more than wanted or
//   than serve.
// - While nothing is committed, pods of other revisions are removed at once: a corrected spec does
//   not wait for pods that could never serve.
// - A crash-looping pod is replaced if no pod of the role is younger than kCrashPause, so that a
//   worker that can never run costs one pod per ten minutes. If it is in the committed topology, it
//   stays beside its replacement.
// - If a replacement finds no node for kShrinkAfter and the role shrinks, a pod that must leave
//   does not wait for it. One member always stays. Once a topology without the pod is committed,
//   the pod is removed.
// - Standby pods are created like others and wait until a member is lost or more are wanted.
// - A pod of a size that is no longer wanted serves until pods of the wanted sizes replace it. The
//   members never have fewer instances than before, or than wanted.
// - Surplus pods are removed in this order: crash-looping, not ready, must leave, other revisions,
//   youngest. A member of the committed topology stays until an epoch without it.
PodPlan PlanPods(std::span<const PodSeen> pods, const RoleWanted& wanted,
                 const std::set<std::string>& committed);

inline constexpr std::chrono::minutes kCrashPause{10};
// So long a scheduler or a cluster autoscaler may look for a node before a role shrinks.
inline constexpr std::chrono::seconds kShrinkAfter{60};
// Shortest time between the creation of a pod that ended before it served and its successor's.
inline constexpr std::chrono::seconds kFailedPause{60};

// True if it ended so soon that its successor must wait. `committed`: uids.
bool EndedAtOnce(const PodSeen& pod, WallTime now, const std::set<std::string>& committed);

}  // namespace janus::control
