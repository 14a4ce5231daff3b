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

// Where the replicas of one layer may go.
struct ReplicaRoom {
  int experts = 0;                   // E
  std::vector<int> room;             // [n] slots to fill, spare ones not counted
  std::vector<int> pod_of_instance;  // [n]; empty: every instance its own pod
  int pods() const;
  int pod(int instance) const {
    return pod_of_instance.empty() ? instance : pod_of_instance[static_cast<size_t>(instance)];
  }
  int total() const;
};

// One layer's placement as sets: which experts an instance holds. No expert twice on an instance.
using Layout = std::vector<std::vector<uint16_t>>;  // [n][up to room]

// JANUS 3.4: every expert one replica, then one more for the expert with most rows per replica, the
// lowest id among equals, until the slots are full or none can take another (an instance holds an
// expert once). Gives replicas per expert, [E]. The room holds all experts (checked).
std::vector<int> ReplicateByRows(const ReplicaRoom& room, std::span<const double> rows);

// JANUS, Algorithm 2: replicas by falling rows per replica; each to the instance with room and
// without that expert whose experts it was chosen together with least; when none is left, the
// cheapest swap. As printed, but for two things: pods without the expert come before pods with it,
// and line 17 takes the slot of h (the paper's listing never does).
Layout PlaceByCoactivation(const ReplicaRoom& room, const LayerActivations& activations,
                           std::span<const int> replicas);

// What DeepSeek's EPLB does (its global policy), for comparison: replicas as above; by falling rows
// per replica, each to the instance with room that has fewest rows so far.
Layout PlaceByRows(const ReplicaRoom& room, const LayerActivations& activations,
                   std::span<const int> replicas);

// What a layout leads to over steps, under the scheduling that the service uses.
struct LayoutValue {
  double largest = 0;  // expected activated experts of the busiest instance
  double gap = 0;      // expected busiest minus idlest
  double squares = 0;  // expected sum over instances of activated experts squared
};

// Evaluates layouts of one room over sampled steps. Confined to one thread.
class LayoutJudge {
 public:
  LayoutJudge(const ReplicaRoom& room, std::span<const std::vector<uint16_t>> steps,
              SchedulingPolicy scheduling = SchedulingPolicy::kAebs);

  // Gives up, with an infinite `largest`, once it is sure to exceed `give_up_above`.
  LayoutValue Judge(const Layout& layout,
                    double give_up_above = std::numeric_limits<double>::infinity());
  // Of the last call: in how many steps an instance was (among) the busiest, [n].
  std::span<const int> busiest_steps() const { return busiest_steps_; }

 private:
  void SetPlacement(const Layout& layout);

  const ReplicaRoom& room_;
  const std::span<const std::vector<uint16_t>> steps_;
  const SchedulingPolicy scheduling_;
  std::vector<double> least_after_;  // [steps+1] what the steps from here on add to it at least
  LayerPlacement placement_;
  AebsWorkspace work_;
  std::vector<int> busiest_steps_;
  std::vector<int> count_;  // [E]
};

}  // namespace janus::controllers
