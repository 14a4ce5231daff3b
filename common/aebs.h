#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/topology.h"

namespace janus {

// Activated-Expert-Balanced Scheduling (JANUS, Algorithm 1): chooses the replica that runs each
// activated expert of a round, so that the busiest instance runs few distinct experts (each costs
// one read of its weights). Every expert instance computes the same result from the same ids
// without messages. So the orders that the paper leaves open are fixed here. Uses integers only, no
// clock, and no allocation within a call. This is the specification of the device kernels;
// controllers and simulator call it too.

// Where a replica sits; default: nowhere.
struct Replica {
  static constexpr uint16_t kNowhere = 0xFFFF;
  uint16_t instance = kNowhere;  // rank among expert instances
  uint16_t slot = kNowhere;      // within the instance
  friend bool operator==(const Replica&, const Replica&) = default;
};

// The replicas of one layer, in arrays that a device can copy. Thread-compatible.
struct LayerPlacement {
  int experts = 0;                    // E
  int instances = 0;                  // n
  int mask_words = 0;                 // ceil(n / 64)
  std::vector<int32_t> first;         // [E+1]: expert e has replicas first[e]..first[e+1]-1 of
  std::vector<Replica> replicas;      // [R], ascending by instance within an expert
  std::vector<uint64_t> hosts;        // [E,mask_words]: bit g set if instance g holds a replica
  std::vector<uint16_t> by_replicas;  // [E]: experts by (number of replicas, id)

  // Reads layer `layer` of a placement that Validate (common/topology.h) accepted.
  static LayerPlacement Of(const Placement& placement, int layer, int experts);
};

// Buffers and results of calls for up to so many experts and instances; sized once.
// Confined to one thread.
class AebsWorkspace {
 public:
  AebsWorkspace(int max_experts, int max_instances);

  // Results of the last call. Activated experts, ascending.
  std::span<const uint16_t> activated() const { return {activated_.data(), num_activated_}; }
  // [E] the replica that runs an expert; nowhere for those not activated.
  std::span<const Replica> replica_of() const { return replica_of_; }
  // [n] activated experts per instance.
  std::span<const int32_t> load() const { return {load_.data(), num_instances_}; }

 private:
  friend void CollectActivated(std::span<const uint16_t> ids, int experts, AebsWorkspace& work);
  friend void AssignGreedy(const LayerPlacement& placement, AebsWorkspace& work);
  friend void AssignExact(const LayerPlacement& placement, AebsWorkspace& work);
  friend void Assign(SchedulingPolicy policy, const LayerPlacement& placement, uint64_t draw,
                     AebsWorkspace& work);
  friend class CostReducingPaths;

  // Nothing is assigned, and all loads are zero.
  void StartAssignment(int instances);
  void Give(size_t expert, const Replica& replica) {
    replica_of_[expert] = replica;
    ++load_[replica.instance];
  }

  std::vector<uint8_t> is_activated_;  // [E+1], the last one catches invalid ids
  std::vector<uint16_t> activated_;    // [E]
  size_t num_activated_ = 0;
  std::vector<Replica> replica_of_;  // [E]
  std::vector<int32_t> load_;        // [n]
  size_t num_instances_ = 0;
  // For the path search.
  std::vector<uint64_t> reach_;     // [n,mask_words]: instances that could take over an expert of g
  std::vector<uint64_t> seen_;      // [mask_words]
  std::vector<uint16_t> previous_;  // [n]
  std::vector<uint16_t> queue_;     // [n]
};

// Line 1: the distinct experts among `ids`, ascending. Every id is below `experts` (checked).
void CollectActivated(std::span<const uint16_t> ids, int experts, AebsWorkspace& work);

// Lines 2-13 of the paper for the collected experts. Experts with one replica go to its instance.
// Then the others, by ascending id, go to their instance of least load, the lowest rank among
// equals. Every collected expert has a replica (checked), here and below.
void AssignGreedy(const LayerPlacement& placement, AebsWorkspace& work);

// The optimum. It takes the same greedy step by (number of replicas, id), then applies
// cost-reducing paths as long as there are any. A path is a chain of instances that each hand one
// expert on to the next; its last instance has at least two experts fewer than its first. Without
// such a path the assignment is an optimal semi-matching (Harvey, Ladner, Lovasz, Tamir:
// "Semi-matchings for bipartite graphs and load balancing", 2003, Theorems 1 and 2): it minimises
// the sum over instances of every convex function of the load at once. So the largest load is
// minimal, and the loads in descending order are lexicographically minimal (take B^load with B >
// n). The order is fixed, so that all instances agree. Paths start at the most loaded instance,
// lowest rank first. The search is breadth first, neighbours by ascending rank. The first instance
// found with two experts fewer ends the path. Each hop hands on the lowest expert id.
void AssignExact(const LayerPlacement& placement, AebsWorkspace& work);

// The assignment of a policy: AssignExact for kAebs, the paper's AssignGreedy for kAebsGreedy, and
// two baselines without balance. With kRandom each collected expert goes to one of its replicas,
// drawn by Philox from `draw` and the expert's id: random expert scheduling, the baseline of JANUS
// 5.1. Instances agree if they pass the same draw; every round has another. With kStatic each goes
// to its first replica, so further replicas are never used.
void Assign(SchedulingPolicy policy, const LayerPlacement& placement, uint64_t draw,
            AebsWorkspace& work);

// Lines 14-17: replicas[i] = where ids[i] runs. Both have T*k entries.
void RemapToReplicas(std::span<const uint16_t> ids, const AebsWorkspace& work,
                     std::span<Replica> replicas);

// All steps: CollectActivated, Assign, RemapToReplicas.
void ScheduleActivatedExperts(SchedulingPolicy policy, const LayerPlacement& placement,
                              std::span<const uint16_t> ids, AebsWorkspace& work,
                              std::span<Replica> replicas, uint64_t draw = 0);

}  // namespace janus
