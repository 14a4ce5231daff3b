#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/gateway_counts.h"
#include "common/ids.h"
#include "common/latency_counts.h"
#include "common/measured_link.h"
#include "common/step_trace.h"
#include "common/topology.h"

namespace janus {

// How a member's messages to one peer travel.
struct PeerLink {
  Role role = Role::kAttention;
  Rank rank{0};
  std::string transport;  // for logs: "shared memory", "UCX tcp/lo"
  // Of the one pair of instances that measures for a pair of nodes, at its attention instance:
  // what it has found, or why it has found nothing.
  std::optional<MeasuredLink> measured = {};
  std::string not_measured = {};
  friend bool operator==(const PeerLink&, const PeerLink&) = default;
};

// The RDMA device for a member's messages outside its memory domain.
struct ExchangeDevice {
  std::string device;  // "mlx5_0"; empty: no device
  int port = 0;
  std::string link_layer;       // "InfiniBand", "Ethernet"
  int64_t bits_per_second = 0;  // in each direction; 0: not known
  std::string why;              // for logs: "same PCIe switch as GPU 0000:3b:00.0"
  friend bool operator==(const ExchangeDevice&, const ExchangeDevice&) = default;
};

// What a scaling decision needs of one instance, beside what people look at. Counters only grow
// within a process; fields of the other role stay 0.
struct LoadCounts {
  uint64_t process = 0;  // drawn when the process starts: another number, another process

  // Counters of attention instances, over completed steps.
  uint64_t decode_rows = 0;      // of sequences that decode, one each
  uint64_t decode_keys = 0;      // that those rows attended to
  uint64_t prompt_rows = 0;      // all others: prompts, and what is computed again
  uint64_t prompt_keys = 0;      // that those rows attended to
  double attention_seconds = 0;  // in kernels: all layers, output head and sampling
  // From handing a round's rows over until its contributions are here. What the experts compute is
  // in it, and so are the shared experts, which this instance computes meanwhile.
  double exchange_seconds = 0;
  double step_seconds = 0;  // from having work for a step to handing over what the step brought

  // Counters of expert instances, over completed steps.
  double gate_seconds = 0;    // gate and top-k
  double aebs_seconds = 0;    // assigning experts to instances
  double expert_seconds = 0;  // the experts themselves

  // Now, of attention instances.
  uint64_t decoding = 0;               // sequences that decode
  uint64_t decoding_kv_tokens = 0;     // keys that they hold
  uint64_t awaiting = 0;               // requests that wait, have their prompt computed, or have
                                       // lost their keys
  uint64_t waiting_prompt_tokens = 0;  // of those, positions to compute
  double oldest_waiting_seconds = 0;   // of those without a first token, the oldest one's age

  friend bool operator==(const LoadCounts&, const LoadCounts&) = default;
};

// The statistics of one instance. Counters only grow within a process; fields of the other
// role stay 0. proto/convert fills it from the wire.
struct InstanceStatistics {
  Role role = Role::kAttention;
  Rank rank{0};        // in `epoch`
  uint64_t epoch = 0;  // that it serves, or has held requests since; 0: none
  uint64_t steps = 0;
  uint64_t rows = 0;
  uint64_t tokens = 0;              // generated (attention)
  uint64_t running = 0;             // sequences in the batch (attention)
  uint64_t waiting = 0;             // (attention)
  uint64_t kv_tokens_used = 0;      // (attention)
  uint64_t kv_tokens_capacity = 0;  // (attention)
  double step_seconds_median = 0;
  double compute_seconds = 0;      // busy, sum
  double wait_seconds = 0;         // for peers, sum
  double host_seconds = 0;         // of steps, in neither kernels nor waits, sum (attention)
  double spin_seconds = 0;         // how long a wait spins before it yields and sleeps
  uint64_t rounds = 0;             // (experts)
  uint64_t activated_experts = 0;  // assigned to this instance, summed over rounds (experts)
  uint64_t preempted = 0;          // preemptions for lack of pages (attention)
  uint64_t recomputed = 0;         // rows of positions that had been computed before (attention)
  uint64_t cached = 0;             // positions taken from the prefix cache (attention)
  // Of these, positions that only host memory held; positions copied there; and what it holds. Only
  // the instance's own page shows them, so they are not on the wire.
  uint64_t cached_in_host = 0;
  uint64_t saved_to_host = 0;
  uint64_t prefix_host_bytes = 0;
  uint64_t clamped_elements = 0;  // of contributions, with the sum rule FixedPoint (experts)
  uint64_t sit_outs = 0;          // steps without an attention instance although it had work
  uint64_t steps_aborted = 0;     // left before their end and repeated; all members count each
  uint64_t rounds_missed = 0;     // late beyond the deadline or refused, noticed by this instance;
                                  // unusable tickets too
  double detection_seconds = 0;   // how long it waits for a round before it is missed
  uint64_t messages_dropped = 0;  // late, sent twice, falsified
  uint64_t messages_malformed = 0;  // of these, with another tag or an impossible size
  uint64_t messages_late = 0;       // of these, rows and contributions of a round that was over
  uint64_t bytes_sent = 0;          // of rows and contributions, to all peers; in the
                                    // two-phase modes, bundles between nodes
  uint64_t bytes_received = 0;
  double tpot_seconds_median = 0;  // of recently finished requests (attention); 0: none yet
  LatencyCounts tpot_counts;       // time per output token of requests that ended (attention)
  LatencyCounts ttft_counts;       // from a request's arrival here to its first token (attention)
  uint64_t replayed = 0;           // generated tokens in requests from lost instances (attention)
  uint64_t swapped = 0;            // sequences with keys and values in host memory (attention)
  uint64_t resident_bytes = 0;     // of the process
  std::vector<PeerLink> links;     // to each of its peers
  ExchangeDevice device;           // for the links over UCX
  // Of a timed device (docs/timed-devices.md): what it stands for, for people; empty: it is none.
  std::string timed;
  uint64_t timed_waits = 0;     // results that were shown when they were due, or later
  uint64_t timed_overruns = 0;  // of these, so late that the modelled times do not hold
  // Why its epoch has ended without a successor: it keeps requests and computes nothing. Empty: it
  // serves.
  std::string holding;
  std::optional<LoadCounts> load;  // absent: a worker of an older version
};

// How often each logical expert of a layer was chosen, over all replicas. Counters only grow within
// a process of the counting instance.
struct LayerPopularity {
  int layer = 0;                 // MoE layers only, counted from 0
  uint64_t rows = 0;             // that were routed
  std::vector<uint64_t> tokens;  // [E] how many of these chose the expert; their sum is rows * K
  friend bool operator==(const LayerPopularity&, const LayerPopularity&) = default;
};

// The routing of one round: the experts that each row chose. No two rounds of a service agree in
// (epoch, step, layer, micro_batch).
struct RoutedRound {
  uint64_t epoch = 0;
  uint64_t step = 0;
  int layer = 0;
  int micro_batch = 0;
  int top_k = 0;                  // K
  std::vector<uint16_t> experts;  // [rows, K], by (attention rank, row)
  friend bool operator==(const RoutedRound&, const RoutedRound&) = default;
};

// The expert instances' record of routing. One of them counts each row of a layer, so those of
// several instances add up (JoinRouting).
struct RoutingStatistics {
  std::vector<LayerPopularity> popularity;  // by layer, without layers that have no rows
  std::vector<RoutedRound> rounds;          // sampled ones
  uint64_t rounds_too_large = 0;            // due to be sampled, but larger than the whole room
  friend bool operator==(const RoutingStatistics&, const RoutingStatistics&) = default;
};

// Adds the record of other instances. False: layers with different numbers of experts were not
// added.
bool JoinRouting(const RoutingStatistics& more, RoutingStatistics& to);

// A member that was called and did not answer.
struct SilentMember {
  std::string name;  // as its caller names it
  std::string why;
};

struct Statistics {
  uint64_t epoch = 0;  // the epoch that the answering instance serves
  std::vector<InstanceStatistics> instances;
  std::vector<SilentMember> silent = {};
  RoutingStatistics routing = {};  // of all of them; empty unless requested
  // Gateways that are attached to an instance, or were within the last ten minutes.
  GatewayReports gateways = {};
  std::vector<StepTrace> traces = {};  // of one step; empty unless requested
};

}  // namespace janus
