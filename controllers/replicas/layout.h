#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/status.h"
#include "common/topology.h"
#include "controllers/replicas/activations.h"

namespace janus::controllers {

// The slots for the replicas of one layer.
struct ReplicaRoom {
  int experts = 0;                   // E
  std::vector<int> room;             // [n] slots to fill, without spare ones
  std::vector<int> pod_of_instance;  // [n]; empty: every instance is a pod
  int pods() const;
  int pod(int instance) const {
    return pod_of_instance.empty() ? instance : pod_of_instance[static_cast<size_t>(instance)];
  }
  int total() const;
};

// One layer's placement as sets: the experts of each instance. No expert is twice on an instance.
using Layout = std::vector<std::vector<uint16_t>>;  // [n][up to room]

// JANUS 3.4: every expert gets one replica. Then the expert with most rows per replica gets one
// more, the lowest id among equals, until the slots are full or no expert can take another (an
// instance holds an expert once). Returns replicas per expert, [E]. There must be room for all
// experts (checked).
std::vector<int> ReplicateByRows(const ReplicaRoom& room, std::span<const double> rows);

// JANUS, Algorithm 2. Replicas are placed by falling rows per replica. Each goes to an instance
// with room and without that expert: the one with experts that were least often chosen together
// with it. If no instance has room, the cheapest swap is made. Two things differ from the paper:
// pods without the expert come before pods with it, and line 17 uses the slot of h (the paper's
// listing never does).
Layout PlaceByCoactivation(const ReplicaRoom& room, const LayerActivations& activations,
                           std::span<const int> replicas);

// DeepSeek's EPLB (its global policy), for comparison. Replicas as above; by falling rows per
// replica, each goes to the instance with room that has fewest rows so far.
Layout PlaceByRows(const ReplicaRoom& room, const LayerActivations& activations,
                   std::span<const int> replicas);

// How good a layout is over steps, under the scheduling of the service.
struct LayoutValue {
  double largest = 0;  // expected activated experts of the busiest instance
  double gap = 0;      // expected busiest minus idlest
  double squares = 0;  // expected sum over instances of activated experts squared
};

// Judges layouts for the same room over sampled steps. Confined to one thread.
class LayoutJudge {
 public:
  LayoutJudge(const ReplicaRoom& room, std::span<const std::vector<uint16_t>> steps,
              SchedulingPolicy scheduling = SchedulingPolicy::kAebs);

  // Stops early, with an infinite `largest`, if it would certainly exceed `give_up_above`.
  LayoutValue Judge(const Layout& layout,
                    double give_up_above = std::numeric_limits<double>::infinity());
  // For the last call: in how many steps each instance was (among) the busiest, [n].
  std::span<const int> busiest_steps() const { return busiest_steps_; }

 private:
  void SetPlacement(const Layout& layout);

  const ReplicaRoom& room_;
  const std::span<const std::vector<uint16_t>> steps_;
  const SchedulingPolicy scheduling_;
  std::vector<double> least_after_;  // [steps+1] a lower bound for what the remaining steps add
  LayerPlacement placement_;
  AebsWorkspace work_;
  std::vector<int> busiest_steps_;
  std::vector<int> count_;  // [E]
};

}  // namespace janus::controllers
