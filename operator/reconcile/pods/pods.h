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

// A worker pod as it was seen.
struct PodSeen {
  std::string name;
  std::string uid;
  std::string version = {};  // resourceVersion
  Role role = Role::kAttention;
  std::string revision;
  int64_t id = 0;
  std::string node = {};          // empty: not placed yet
  std::string ip = {};            // empty: it has none yet
  bool containers_ready = false;  // it can be prepared
  WallTime unready_since = {};    // if not: since when, by its node's clock
  bool has_member_label = false;
  bool has_member_gate = false;    // its readiness gate is True
  bool is_ready = false;           // as the kubelet says, gate included
  bool is_leaving = false;         // is being deleted
  bool has_ended = false;          // its containers will not run again
  std::string ended_because = {};  // in the kubelet's words; empty: it gave none
  int restarts = 0;                // of its worker
  // Its worker keeps ending and is started later and later; its last words, and how it ended.
  std::string crash_loop;
  // One of its containers cannot be started: an image that is not to be had, a Secret that is not
  // there; why, in the kubelet's words.
  std::string not_starting = {};
  // No node takes it; why, in the scheduler's words.
  std::string unplaceable;
  WallTime created;
  std::string model;      // its label (ModelLabelOf)
  bool uses_tls = false;  // it calls, and is called, by mutual TLS

  int64_t gpus = 0;  // that it is limited to (GpusOf)

  // From its node (JudgeByNodes): why the pod has to go while it serves ("node a is cordoned").
  std::string must_leave;
  // Its node has been silent for longer than a replacement should wait.
  bool is_lost = false;

  // It runs, will run, and is not to be given up.
  bool is_live() const { return !is_leaving && !has_ended && !is_lost; }
  int64_t held_gpus() const { return node.empty() || has_ended || is_lost ? 0 : gpus; }
};

// By what its containers are limited to: those of NVIDIA (IsGpu), a slice or a share counted as
// one, and resources of others named gpu ("amd.com/gpu"). Pure.
int64_t GpusOf(const Node& pod);

// What of a pod's tree decides. Nothing: it carries no role, or no id in its name.
std::optional<PodSeen> ReadPod(const Node& pod);

// What a role wants.
struct RoleWanted {
  int pods = 0;
  std::string revision;
  bool rolls = true;  // pods of other revisions are replaced; not while paused
  WallTime now;
};

// Of one that has ended: "its containers have ended", or "it has failed: Evicted: no memory".
std::string WhyEnded(const PodSeen& pod);

// Why a pod of ours that is no worker's does not come to run; empty: nothing is known to keep it.
std::string WhyNotRunning(const Node& pod);

struct PodRemoval {
  std::string name;
  std::string uid;
  std::string reason;  // for the Event
};

struct PodPlan {
  int create = 0;  // of the wanted revision
  // The pods for the next topology, lowest id first; never one that cannot be prepared.
  std::vector<std::string> members;  // uids
  // None of these is of the committed topology.
  std::vector<PodRemoval> remove;
};

// The pods of one role: which to make, which should serve, which to delete. `committed`: uids of
// the committed topology's pods. Pure, and the same whenever the world is the same:
//
// - What fails to live is replaced at once; what has ended or is lost is removed. What a kubelet
//   refuses is made anew once in kFailedPause: the scheduler may well give it the same node again.
// - Pods that must leave, and pods of another revision, stay and serve until replacements serve.
// Those
//   come all at once for pods that must leave, and one at a time for a rollout.
// - A pod that crash-loops is replaced when no pod of the role is younger than kCrashPause, so that
//   a worker that never can run costs a pod each ten minutes. If it is of the committed topology,
//   the two are there together.
// - Of too many pods, those go that crash-loop, then those that are not ready, then those that must
//   leave, then those of other revisions, then the youngest; no member of the committed topology
//   goes before an epoch without it.
PodPlan PlanPods(std::span<const PodSeen> pods, const RoleWanted& wanted,
                 const std::set<std::string>& committed);

inline constexpr std::chrono::minutes kCrashPause{10};
// From the creation of a pod that ended before it ever served to that of its successor, at least.
inline constexpr std::chrono::seconds kFailedPause{60};

// Whether it ended so soon that its successor has to wait. `committed`: uids.
bool EndedAtOnce(const PodSeen& pod, WallTime now, const std::set<std::string>& committed);

}  // namespace janus::control
