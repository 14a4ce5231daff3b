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

// Rollout SideBySide: a service goes over to a model that cannot share an epoch with the one that
// serves, and both stand while it does. Each side has a MoETopology, pods and epochs of its own.
//
//   the new model is known      from a first pod of its revision: the pods are divided (Split)
//   both serve or come          losses of the old side are mended by the spec it was whole under
//   the new side is whole       record of the old one: endedEpoch, compare-and-swap
//   its members tell of the new topology; gateways with another tokenizer are replaced
//   the old attention drains    up to rollout.drainSeconds from endedAt
//   the old pods go, and when none is left its record
//
// Until the new side is committed the spec may go back to the old model: then the new record goes.

// One topology of the service and the pods that belong to it.
struct Side {
  const TopologySeen* topology = nullptr;    // in ServiceObserved; null: there is none yet
  std::array<std::vector<PodSeen>, 2> pods;  // by role, attention first
  std::set<std::string> committed_pods;      // uids of pods of the committed epoch

  // Of the record; null: there is none.
  const TopologyRecord* committed() const;
  const TopologyRecord* proposed() const;
  const TopologyRecord* ended() const;
  // The record can be read.
  bool is_readable() const { return topology != nullptr && topology->topology.has_value(); }
  int64_t last_epoch() const;
  const EpochsSeen& epochs() const;
  // This process leads, and members take its calls.
  bool has_fence() const;
  bool HasTold() const;  // of the committed epoch
  std::vector<PodSeen> AllPods() const;
  bool is_empty() const { return pods[0].empty() && pods[1].empty(); }
};

struct Sides {
  Side front;                              // of the model that is wanted, or serves alone
  std::optional<Side> old;                 // of the model that goes
  std::set<std::string> front_models;      // labels (kModelLabel) of pods of its committed epoch
  std::set<std::string> old_models;        // labels of the old side's pods
  std::vector<const TopologySeen*> spare;  // records without use
};

// The newest committed record is the front's, the oldest other one the old side's. Pure, as all
// here; results point into `seen`.
Sides TakeSides(const ServiceObserved& seen);
// What is wanted comes beside what serves: the front becomes the old side.
Sides Split(const ServiceObserved& seen, const Sides& sides);
// The model that is wanted is the old side's again, before the new one came to serve.
bool WantsOldSideAgain(const Sides& sides, const MoEService& service, bool is_invalid);
Sides ReturnToOldSide(const ServiceObserved& seen, const Sides& sides);
// A third model is wanted; there are two sides at most.
bool MustAwaitOldSide(const Sides& sides, const MoEService& service, bool is_invalid);

}  // namespace janus::control
