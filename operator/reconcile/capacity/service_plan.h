#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/model/description.h"
#include "common/status.h"
#include "operator/api/defaults.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/room.h"

namespace janus::control {

// What one pod needs.
struct PodNeed {
  int64_t weights = 0;  // in the page cache, or converted
  int64_t kv = 0;
  int64_t workspace = 0;
  int64_t exchange = 0;
  int64_t process = 0;

  int64_t total() const { return weights + kv + workspace + exchange + process; }
};

// What one pod on a GPU needs of that, and of its machine, where weights pass through, preempted
// sequences wait and messages between hosts lie. The epoch that runs and the one that is prepared
// have their own workspace and exchange.
struct GpuPodNeed {
  PodNeed device;
  PodNeed host;
};

// Bytes of one service, on one machine or in its pods. Per instance where it says so. Weights that
// are computed with as the checkpoint stores them are used where its files are mapped: one copy in
// the page cache, however many processes use it. Other weights are converted, a copy in each
// process that needs them.
struct MemoryNeed {
  int64_t mapped_weights = 0;       // all that are used in place, once
  int64_t attention_weights = 0;    // each attention instance: converted
  int64_t attention_workspace = 0;  // each
  int64_t kv = 0;                   // each: pages and the host copies of preempted sequences
  int64_t expert_weights = 0;    // each expert instance: converted; gates, filled slots, spare ones
  int64_t expert_workspace = 0;  // each
  int64_t exchange = 0;          // slots and queues of all instances, landing memory of UCX
  int64_t gateway = 0;           // what clients may make the gateway hold
  int64_t processes = 0;         // everything else of all processes: code, stacks, libraries
  // Of one instance that shares no memory with another one: its part of the mapped weights, of the
  // exchange, with landing memory for all its peers, and of the processes.
  int64_t attention_mapped = 0;
  int64_t expert_mapped = 0;
  int64_t attention_exchange = 0;
  int64_t expert_exchange = 0;
  int64_t process = 0;
  GpuPodNeed attention_on_gpu;
  GpuPodNeed experts_on_gpu;
  int m = 0;
  int n = 0;

  // On CPUs.
  PodNeed attention_pod() const {
    return {attention_mapped + attention_weights, kv, attention_workspace, attention_exchange,
            process};
  }
  PodNeed expert_pod() const {
    return {expert_mapped + expert_weights, 0, expert_workspace, expert_exchange, process};
  }
  // On one machine.
  int64_t total() const {
    return mapped_weights + m * (attention_weights + attention_workspace + kv) +
           n * (expert_weights + expert_workspace) + exchange + gateway + processes;
  }
};

// How a service is run, decided before it is.
struct ServicePlan {
  Effective effective;
  int m = 0;
  int n = 0;
  int slots_per_instance = 0;  // C, without the spare ones
  int spare_slots = 0;
  int most_slots = 0;  // C that an instance has memory for; what the spec says, if it does
  DType dtype = DType::kFloat32;  // computed in
  int64_t max_model_len = 0;      // tokens of one sequence
  int max_batch_size = 0;         // sequences per attention instance
  int max_rows_per_round = 0;
  int crossover_rows = 0;            // of an expert, from which on its rows are split
  int queued_requests = 0;           // waiting, per attention instance
  int tpot_target_milliseconds = 0;  // 0: none was set
  int64_t kv_bytes = 0;              // per attention instance
  int64_t swap_bytes = 0;            // per attention instance
  int compute_threads = 1;           // per instance
  int64_t gateway_memory_bytes = 0;  // bound of what the gateway holds for its clients; 0: its own
  MemoryNeed need;
  std::string held;  // why counts are held though mode SLO asks for scaling; empty: they are not
};

// Whether the role's count is held because nothing scales it: it is in mode SLO. Pure.
bool IsHeld(const RoleSpec& role);

// `service` has passed ValidateSchema and ValidateSupported; `model` is its checkpoint's. Pure.
//
// Counts: replicas where given; else max(minReplicas, fewest that hold the model): in mode SLO as
// long as nothing scales, in mode External with minReplicas set to what a MoERoleScaler asks for.
// In pods the fewest follows from the memory that an expert pod has reported.
// Slots: where not given, SlotsByDefault of controllers/replicas/default_slots.h: replicas of half
// the experts, as far as the memory that keys and values leave holds them. KV: where no size is
// given, as much as all sequences of a full batch can use, within memoryPercent of what the rest
// leaves free. Gateway: `gateway_memory_bytes`, else a sixteenth of the machine's free memory, 32
// MiB to 256 MiB, and room for four requests of the largest size in any case.
//
// InvalidArgument: too few slots, fewer instances allowed than hold the model, a length beyond the
// model's, a gateway without room for one request (with the path); ResourceExhausted: "needs 93 GB,
// 24 GB free", with what takes it and what to change.
Result<ServicePlan> PlanService(const MoEService& service, const ModelDescription& model,
                                const MachineRoom& room,
                                std::optional<int64_t> gateway_memory_bytes = std::nullopt);

// The same for instances with a pod each: what a role's pod needs is held against what it has, and
// where that is not known against nothing. The gateway is no part of it. KV: of what is free in an
// attention pod; without a limit of its memory, of its share among all instances of the service.
// On a GPU what it needs there and what it needs of its machine are held against either, and the KV
// cache is a share of what the GPU has left. ResourceExhausted names the role.
Result<ServicePlan> PlanServiceInPods(const MoEService& service, const ModelDescription& model,
                                      const PodRooms& rooms);

}  // namespace janus::control
