#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/latency_counts.h"
#include "common/topology.h"

namespace janus {

// How a member's messages to another one travel.
struct PeerLink {
  Role role = Role::kAttention;
  Rank rank{0};
  std::string transport;  // for people: "shared memory", "UCX tcp/lo"
  friend bool operator==(const PeerLink&, const PeerLink&) = default;
};

// The RDMA device that a member's messages beyond its memory domain may go through.
struct ExchangeDevice {
  std::string device;  // "mlx5_0"; empty: there is none
  int port = 0;
  std::string link_layer;       // "InfiniBand", "Ethernet"
  int64_t bits_per_second = 0;  // in each direction; 0: not known
  std::string why;              // for people: "same PCIe switch as GPU 0000:3b:00.0"
  friend bool operator==(const ExchangeDevice&, const ExchangeDevice&) = default;
};

// What one instance knows of itself. Counters only grow within an incarnation; fields of the other
// role stay 0. proto/convert fills it from the wire.
struct InstanceStatistics {
  Role role = Role::kAttention;
  Rank rank{0};        // in `epoch`
  uint64_t epoch = 0;  // that it serves, or holds since; 0: none
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
  uint64_t preempted = 0;          // times a sequence gave way for want of pages (attention)
  uint64_t recomputed = 0;         // rows of positions that had been computed before (attention)
  uint64_t sit_outs = 0;           // steps an attention instance with work was left out of
  uint64_t steps_aborted = 0;      // left before their end and repeated; all members count each
  uint64_t rounds_missed = 0;      // late beyond the deadline or refused, noticed by this instance;
                                   // unusable tickets too
  double detection_seconds = 0;    // how long it waits for a round before that is missed
  uint64_t messages_dropped = 0;   // late, sent twice, falsified
  uint64_t messages_malformed = 0;  // of these, with another tag or an impossible size
  uint64_t messages_late = 0;       // of these, rows and contributions of a round that was over
  uint64_t bytes_sent = 0;          // of rows and contributions, to all peers
  uint64_t bytes_received = 0;
  double tpot_seconds_median = 0;  // of requests finished lately (attention); 0: none yet
  LatencyCounts tpot_counts;       // time per output token of requests that ended (attention)
  LatencyCounts ttft_counts;       // from a request's arrival here to its first token (attention)
  uint64_t replayed = 0;           // generated tokens that requests came with, as their instance
                                   // was lost (attention)
  uint64_t swapped = 0;            // sequences with keys and values in host memory (attention)
  uint64_t resident_bytes = 0;     // of the process
  std::vector<PeerLink> links;     // to each of its peers
  ExchangeDevice device;           // of the links that go over UCX
  // Why its epoch has ended here without another: requests are kept and nothing is computed. Empty:
  // it serves.
  std::string holding;
};

// How often each logical expert of a layer was chosen, over all replicas. Counters only grow within
// an incarnation of the counting instance.
struct LayerPopularity {
  int layer = 0;                 // MoE layers, counted on their own
  uint64_t rows = 0;             // that were routed
  std::vector<uint64_t> tokens;  // [E] of these, those that chose the expert; their sum is rows * K
  friend bool operator==(const LayerPopularity&, const LayerPopularity&) = default;
};

// One round as it was routed: which experts each row chose together. No two of a service agree in
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

// What expert instances know of routing; each row of a layer is counted by one of them. Those of
// several instances add up (JoinRouting).
struct RoutingStatistics {
  std::vector<LayerPopularity> popularity;  // by layer; layers without rows are left out
  std::vector<RoutedRound> rounds;          // sampled ones
  uint64_t rounds_too_large = 0;  // were to be sampled, and are larger than all there is room for
  friend bool operator==(const RoutingStatistics&, const RoutingStatistics&) = default;
};

// Adds what others know. Layers whose numbers of experts differ are not added: false.
bool JoinRouting(const RoutingStatistics& more, RoutingStatistics& to);

// A member that was asked and did not answer.
struct SilentMember {
  std::string name;  // as its caller names it
  std::string why;
};

struct Statistics {
  uint64_t epoch = 0;  // that the answering instance serves
  std::vector<InstanceStatistics> instances;
  std::vector<SilentMember> silent = {};
  RoutingStatistics routing = {};  // of all of them; empty unless asked for
};

}  // namespace janus
