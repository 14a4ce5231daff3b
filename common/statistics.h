#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/topology.h"

namespace janus {

// How a member's messages to another one travel.
struct PeerLink {
  Role role = Role::kAttention;
  Rank rank{0};
  std::string transport;  // for people: "shared memory", "UCX tcp/lo"
  friend bool operator==(const PeerLink&, const PeerLink&) = default;
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
  uint64_t resident_bytes = 0;     // of the process
  std::vector<PeerLink> links;     // to each of its peers
  // Why its epoch has ended here without another: requests are kept and nothing is computed. Empty:
  // it serves.
  std::string holding;
};

// Who was asked and did not answer.
struct SilentMember {
  std::string name;  // as who asked has called it
  std::string why;
};

struct Statistics {
  uint64_t epoch = 0;  // that the answering instance serves
  std::vector<InstanceStatistics> instances;
  std::vector<SilentMember> silent = {};
};

}  // namespace janus
