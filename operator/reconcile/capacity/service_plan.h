#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/model/description.h"
#include "common/status.h"
#include "common/timed_device.h"
#include "operator/api/defaults.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/room.h"

namespace janus::control {

// Memory of one pod, in bytes.
struct PodNeed {
  int64_t weights = 0;  // in the page cache, or converted
  int64_t kv = 0;
  int64_t workspace = 0;
  int64_t exchange = 0;
  int64_t process = 0;

  int64_t total() const { return weights + kv + workspace + exchange + process; }
};

// Memory of one pod with a GPU: on the GPU, and on its host, which holds weights while they are
// loaded, preempted sequences and messages between hosts. The running and the prepared epoch each
// have a workspace and an exchange.
struct GpuPodNeed {
  PodNeed device;
  PodNeed host;
};

// Memory of one service in bytes, on one machine or in its pods; per instance where noted. Weights
// in a format that can be used directly stay in the mapped checkpoint files: one copy in the page
// cache serves all processes. Other weights are converted, with one copy in each process that needs
// them.
struct MemoryNeed {
  int64_t mapped_weights = 0;       // all weights used in place, counted once
  int64_t attention_weights = 0;    // each attention instance: converted
  int64_t attention_workspace = 0;  // each
  int64_t kv = 0;                   // each: pages and host copies of preempted sequences
  int64_t expert_weights = 0;    // each expert instance: converted; gates, filled slots, spare ones
  int64_t expert_workspace = 0;  // each
  int64_t exchange = 0;          // slots and queues of all instances, landing memory of UCX
  int64_t gateway = 0;           // most that clients can make the gateway hold
  int64_t processes = 0;         // everything else of all processes: code, stacks, libraries
  // Per instance, if it shares no memory with others: its part of the mapped weights, the exchange
  // with landing memory for all peers, and the process.
  int64_t attention_mapped = 0;
  int64_t expert_mapped = 0;
  int64_t attention_exchange = 0;
  int64_t expert_exchange = 0;
  int64_t process = 0;
  GpuPodNeed attention_on_gpu;
  GpuPodNeed experts_on_gpu;
  int m = 0;
  int n = 0;

  // For pods on CPUs.
  PodNeed attention_pod() const {
    return {attention_mapped + attention_weights, kv, attention_workspace, attention_exchange,
            process};
  }
  PodNeed expert_pod() const {
    return {expert_mapped + expert_weights, 0, expert_workspace, expert_exchange, process};
  }
  // For one machine.
  int64_t total() const {
    return mapped_weights + m * (attention_weights + attention_workspace + kv) +
           n * (expert_weights + expert_workspace) + exchange + gateway + processes;
  }
};

// How a service will run, decided before it starts.
struct ServicePlan {
  Effective effective;
  int m = 0;
  int n = 0;
  int slots_per_instance = 0;  // C, without spare slots
  int spare_slots = 0;
  int most_slots = 0;             // C that an instance has memory for; the spec's, if it sets it
  DType dtype = DType::kFloat32;  // for computation
  int64_t max_model_len = 0;      // tokens of one sequence
  int max_batch_size = 0;         // sequences per attention instance
  int max_rows_per_round = 0;
  int crossover_rows = 0;            // rows of an expert from which they are split
  int queued_requests = 0;           // waiting, per attention instance
  int tpot_target_milliseconds = 0;  // 0: not set
  int64_t kv_bytes = 0;              // per attention instance
  int64_t swap_bytes = 0;            // per attention instance
  int64_t prefix_host_bytes = 0;     // per attention instance, beside its GPU
  int compute_threads = 1;           // per instance
  int64_t gateway_memory_bytes = 0;  // most that the gateway may hold for clients; 0: its default
  MemoryNeed need;
  std::optional<NodeSizes> nodes;  // of several instances: pods, or nodes that a machine plays
  bool plays_nodes = false;        // a machine plays them
  bool shares_hosts = false;       // a machine is a node, with the instances that it happens to run
  bool chooses_mode = true;        // exchange.mode is Auto
  // By janus::ExchangeMode: whether the reserved memory holds this mode's slots. With Auto another
  // mode than effective.mode may be chosen for an epoch (exchange/choose_mode.h).
  std::array<bool, 3> mode_fits{true, true, true};
  // By janus::ExchangeMode: the same with the gate on attention, which an epoch may then choose
  // too. With exchange.gate Auto, on CPUs, and if rows cross a network to several expert nodes.
  // Nowhere: the gate is on the side of effective.gate.
  std::array<bool, 3> gate_fits{};
  std::optional<TimedDevice> timed;  // what every worker stands for

  bool moves_gate() const { return std::ranges::find(gate_fits, true) != gate_fits.end(); }
};

// `service` has passed ValidateSchema and ValidateSupported; `model` describes its checkpoint.
// Pure.
//
// - Counts: replicas if set. Otherwise the larger of minReplicas and the fewest that hold the
//   model; callers set minReplicas to what a decision (mode SLO) or a MoERoleScaler (mode External)
//   wants. In pods the fewest follow from the memory that an expert pod has reported.
// - Slots: if not set, SlotsByDefault of controllers/replicas/default_slots.h: replicas of half the
//   experts, as far as the memory that keys and values leave holds them.
// - KV: if not set, enough for all sequences of a full batch, within memoryPercent of the memory
//   that the rest leaves.
// - Timed devices (docs/timed-devices.md): slots and KV are those of the named device.
// - Gateway: `gateway_memory_bytes`; otherwise a sixteenth of the machine's free memory, within 32
//   MiB to 256 MiB, but always enough for four requests of the largest size.
//
// InvalidArgument, with the path: too few slots, too few instances allowed for the model, a length
// beyond the model's, a gateway too small for one request, memory for a prefix cache that is
// disabled, or a timed device that is unknown or has less room than the spec asks for.
// ResourceExhausted: "needs 93 GB, 24 GB free", with the largest
// parts and what to change.
Result<ServicePlan> PlanService(const MoEService& service, const ModelDescription& model,
                                const MachineRoom& room,
                                std::optional<int64_t> gateway_memory_bytes = std::nullopt);

// The same for instances in separate pods. The need of each role's pod must fit its resources;
// unknown resources are not checked. The gateway is not included. KV: from the free memory of an
// attention pod; without a memory limit, from its share among all instances of the service. With a
// GPU, the needs of GPU and host are checked separately, and the KV cache is a share of free GPU
// memory. ResourceExhausted names the role.
Result<ServicePlan> PlanServiceInPods(const MoEService& service, const ModelDescription& model,
                                      const PodRooms& rooms);

}  // namespace janus::control
