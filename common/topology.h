#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/status.h"

namespace janus {

enum class Role : uint8_t { kAttention = 0, kExperts = 1 };
enum class ExchangeMode : uint8_t { kDirect = 0, kTwoPhaseSingle = 1, kTwoPhaseParallel = 2 };
enum class GateSide : uint8_t { kExperts = 0, kAttention = 1 };
enum class SumRule : uint8_t { kContributions = 0, kFixedPoint = 1 };
// How pairs of instances communicate. kAuto: over shared memory inside a memory domain, over the
// network outside it. The others force one way for every pair.
enum class ExchangeTransport : uint8_t { kAuto = 0, kSharedMemory = 1, kTcp = 2, kRdma = 3 };
constexpr bool ForcesNetwork(ExchangeTransport transport) {
  return transport == ExchangeTransport::kTcp || transport == ExchangeTransport::kRdma;
}
// Which replica computes an activated expert (common/aebs.h).
enum class SchedulingPolicy : uint8_t { kAebs = 0, kAebsGreedy = 1, kRandom = 2, kStatic = 3 };

// Which requests share the keys and values of a common prefix: those whose bits cannot change by
// it; those with equal tokens, even if a position's class differs; none.
enum class PrefixSharing : uint8_t { kExact = 0, kReuse = 1, kDisabled = 2 };

std::string_view ToString(Role role);
std::string_view ToString(ExchangeMode mode);
std::string_view ToString(ExchangeTransport transport);
std::string_view ToString(SchedulingPolicy policy);

// An attention instance's room for sequences, constant for its life: a later epoch has the same.
// Instances of one epoch may differ. 0: the worker's default (proto/topology.proto).
struct SequenceRoom {
  int max_batch_size = 0;         // running sequences
  int64_t max_model_len = 0;      // per sequence
  int64_t kv_bytes = 0;           // keys and values of running sequences
  int64_t swap_bytes = 0;         // those of preempted sequences
  int64_t prefix_host_bytes = 0;  // host memory for shared prefixes beside a GPU; 0: none
  friend bool operator==(const SequenceRoom&, const SequenceRoom&) = default;
};

// One worker of a module. (pod_uid, index, incarnation) identifies it. Its rank is its position in
// the topology's list for its role.
struct Instance {
  Role role = Role::kAttention;
  std::string pod_uid;
  int index = 0;        // within the pod
  int incarnation = 0;  // grows with every restart of the container
  std::string node;     // its pod, or a node that a machine plays: the two-phase modes
                        // gather inside it
  std::string domain;   // memory domain: instances of one domain can map the same memory
  std::string address;  // gRPC target, e.g. "unix:/run/.../attention-0.sock"
  // Where its exchange listens, "unix:/run/.../attention-0.x" or "tcp:10.0.0.5:9001"; or both,
  // "tcp:10.0.0.5:9001,unix:/run/janus/exchange-0": the second one is for instances of its domain.
  std::string exchange_address;
  int slots = 0;           // expert instances: C, including spare slots
  SequenceRoom sequences;  // attention instances
  friend bool operator==(const Instance&, const Instance&) = default;
};

// Which logical expert is in which slot, per layer. Slots are listed instance after instance.
struct Placement {
  static constexpr uint16_t kEmpty = 0xFFFF;

  int layers = 0;
  std::vector<int> slots_of_instance;  // [n]
  std::vector<uint16_t> expert_of;     // [layers, sum of slots_of_instance]; kEmpty: empty slot

  int total_slots() const;
  // Index of an instance's first slot within a layer's list.
  int first_slot(Rank instance) const;
  uint16_t at(int layer, int slot) const {
    return expert_of[static_cast<size_t>(layer) * static_cast<size_t>(total_slots()) +
                     static_cast<size_t>(slot)];
  }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Checks that every expert of every layer has a replica, ids are below `experts`, and no instance
// holds two replicas of one expert. InvalidArgument names layer, slot and expert.
Status Validate(const Placement& placement, int layers, int experts);

inline constexpr int kMaxMicroBatches = 4;
inline constexpr int kMaxAttentionInstances = 256;
inline constexpr int kMaxExpertInstances = 1024;

struct Topology {
  uint64_t epoch = 0;
  std::vector<Instance> attention;  // m, by rank
  std::vector<Instance> experts;    // n, by rank
  ExchangeMode mode = ExchangeMode::kDirect;
  ExchangeTransport transport = ExchangeTransport::kAuto;
  GateSide gate = GateSide::kExperts;
  SumRule sum = SumRule::kContributions;
  int micro_batches = 1;         // b, 1..kMaxMicroBatches
  int max_rows_per_round = 512;  // R_max: rows of one sender in one round
  Placement placement;
  std::string config_hash;

  int m() const { return static_cast<int>(attention.size()); }
  int n() const { return static_cast<int>(experts.size()); }
};

// A hash of everything that its members must agree on, including instances and placement. Equal
// topologies give equal hashes.
uint64_t TopologyHash(const Topology& topology);

// Checks m, n >= 1, the addresses, the bounds of api.md, and the placement for the model.
Status Validate(const Topology& topology, int layers, int experts);

}  // namespace janus
