#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "common/aebs.h"
#include "common/aligned_buffer.h"
#include "common/clock.h"
#include "common/model/description.h"
#include "common/mutex.h"
#include "common/statistics.h"
#include "common/topology.h"
#include "dataplane/comm/exchange.h"
#include "dataplane/experts/weights.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::dataplane {

struct ExpertOptions {
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  Seconds detection_deadline{10.0};  // a peer silent for longer within a step is lost
};

// One expert instance. For every round it has all rows of all participants; it runs the gate,
// assigns each activated expert to one replica (AEBS, computed alike by every expert instance),
// computes the experts that fell to it and sends every participant its contributions.
//
// Run is the step thread; statistics is thread-safe.
class ExpertInstance {
 public:
  // `weights`, `transport`, `exchange` and `clock` must outlive the instance.
  ExpertInstance(const ExpertOptions& options, const ModelDescription& model,
                 const ExpertWeights& weights, const Topology& topology, Rank rank,
                 Transport& transport, ExpertExchange& exchange, const Clock& clock,
                 const kernels::Stream& stream);

  // Serves steps until stopped (OK) or until the exchange fails (the peer and the round are named).
  Status Run(std::stop_token stop);

  InstanceStatistics statistics() const;

 private:
  // Rows of one participant in the round at hand.
  struct Source {
    bool awaited = false;
    bool here = false;
    ArrivedRows rows;
    int contributions = 0;  // that this instance computes for it
    ExpertExchange::Outgoing out;
    int written = 0;
  };

  bool NextTicket(RoundKey& key, std::vector<bool>& participants);
  Status ExecuteStep(RoundKey key, const std::vector<bool>& participants);
  Status AwaitRows(const RoundKey& key);
  Status Gate(const RoundKey& key, Rank from);
  Status Compute(const RoundKey& key);
  // Cuts what fell to this instance into one list per slot, grouped by slot, and lays out the
  // replies.
  void GatherWork(const RoundKey& key);

  // Constant after construction.
  const ExpertOptions options_;
  const ModelDescription model_;
  const ExpertWeights& weights_;
  const Topology topology_;
  const Rank rank_;
  Transport& transport_;
  ExpertExchange& exchange_;
  const Clock& clock_;
  const kernels::Stream stream_;
  const DType wire_;
  std::vector<LayerPlacement> placements_;  // per layer

  mutable Mutex mu_;
  InstanceStatistics statistics_ JANUS_GUARDED_BY(mu_);

  // Confined to the step thread; sized once for m * R_max rows.
  std::stop_token stop_;
  std::vector<Source> sources_;  // by attention rank
  std::vector<const void*> row_pointers_;
  std::vector<float> router_logits_;  // of one sender
  std::vector<uint16_t> gate_ids_;    // [m, R_max, K], by sender
  std::vector<float> gate_weights_;   // likewise
  std::vector<uint16_t> ids_;         // [T, K] of the round, by (rank, row)
  std::vector<Replica> replicas_;     // likewise
  AebsWorkspace aebs_;
  std::vector<int> slot_count_;
  std::vector<int> slot_first_;
  std::vector<kernels::Contribution> contributions_;
  std::vector<kernels::ActiveExpert> active_;
  AlignedBuffer ffn_workspace_;
  MonotonicTime all_here_;
  Seconds wait_{0};
  uint64_t rows_ = 0;
  uint64_t rounds_ = 0;
  uint64_t activated_ = 0;
  Header control_header_;
  std::vector<std::byte> control_payload_;
};

}  // namespace janus::dataplane
