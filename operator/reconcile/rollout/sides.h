#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/moeservice.h"
#include "operator/reconcile/pass/observed.h"

namespace janus::control {

// Rollout SideBySide: replaces a model by one that cannot share an epoch with it, while both run.
// Each side has a separate MoETopology, pods and epochs.
//
//   the new model is known      from a first pod of its revision; pods are divided (Split)
//   both serve or start         lost pods of the old side are replaced under its last whole spec
//   the new side is whole       record of the old one: endedEpoch, compare-and-swap
//   its members announce the new topology; gateways with another tokenizer are replaced
//   the old attention drains    up to rollout.drainSeconds from endedAt
//   the old pods are deleted, then the old record
//
// Until the new side commits, the spec may return to the old model; then the new record is deleted.

// A topology of the service with its pods.
struct Side {
  const TopologySeen* topology = nullptr;    // in ServiceObserved; null: none yet
  std::array<std::vector<PodSeen>, 2> pods;  // by role, attention first
  std::set<std::string> committed_pods;      // uids of pods of the committed epoch

  // From the record; null: none.
  const TopologyRecord* committed() const;
  const TopologyRecord* proposed() const;
  const TopologyRecord* ended() const;
  // The record is readable.
  bool is_readable() const { return topology != nullptr && topology->topology.has_value(); }
  int64_t last_epoch() const;
  const EpochsSeen& epochs() const;
  // This process leads, and members accept its calls.
  bool has_fence() const;
  bool HasTold() const;  // all know of the committed epoch
  std::vector<PodSeen> AllPods() const;
  bool is_empty() const { return pods[0].empty() && pods[1].empty(); }
};

struct Sides {
  Side front;                              // of the wanted model, or the only side
  std::optional<Side> old;                 // of the model that is replaced
  std::set<std::string> front_models;      // labels (kModelLabel) of pods in its committed epoch
  std::set<std::string> old_models;        // labels of the old side's pods
  std::vector<const TopologySeen*> spare;  // unused records
};

// The newest committed record belongs to the front, the oldest other one to the old side. Pure,
// like all functions here; results point into `seen`.
Sides TakeSides(const ServiceObserved& seen);
// Starts a second side for the wanted model: the front becomes the old side.
Sides Split(const ServiceObserved& seen, const Sides& sides);
// True if the old side's model is wanted again before the new one serves.
bool WantsOldSideAgain(const Sides& sides, const MoEService& service, bool is_invalid);
Sides ReturnToOldSide(const ServiceObserved& seen, const Sides& sides);
// True if a third model is wanted, since there are at most two sides.
bool MustAwaitOldSide(const Sides& sides, const MoEService& service, bool is_invalid);

}  // namespace janus::control
