#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/aligned_buffer.h"
#include "common/function_ref.h"
#include "common/model/description.h"
#include "common/row_split.h"
#include "common/topology.h"
#include "dataplane/comm/exchange.h"
#include "dataplane/experts/weights.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::dataplane {

// The expert side of the model over the rows of one round, as one expert instance sees it: gate and
// top-k of every row, who computes it (one replica for each activated expert, AEBS, or in large
// rounds shares of its rows; computed alike by every instance), and the FFN of what fell to this
// instance. It knows no peer and no transport; a round is Begin, Gate for every attention instance
// that takes part, Assign, Compute.
//
// Confined to the step thread. Buffers are sized once for m * R_max rows.
class ExpertLayers {
 public:
  // `weights` holds what `rank` has in the topology's placement and must outlive this.
  // `crossover_rows`: as ScheduleRound (common/row_split.h) takes it.
  ExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
               const Topology& topology, Rank rank, SchedulingPolicy scheduling, int crossover_rows,
               const kernels::Stream& stream);

  void Begin(int layer);

  // Gate and top-k of the rows [count, H] of the wire type of attention instance `from`, which must
  // stay valid until Compute has returned. In any order of senders, each once at most; those that
  // are not gated take no part.
  Status Gate(Rank from, const std::byte* rows, int count);

  // Which instance computes which expert of which gated row.
  void Assign();

  // Room for `count` contributions to `to`, as ExpertExchange::Begin gives it.
  using Begun = FunctionRef<ExpertExchange::Outgoing(Rank to, int count)>;
  // Computes this instance's contributions to every gated sender, in order of rank, none included.
  Status Compute(Begun begin);

  // Of the round computed last.
  int rows() const { return rows_; }
  int activated() const { return activated_; }
  // The experts that its rows chose, [rows, K], by (rank, row).
  std::span<const uint16_t> routed() const {
    return std::span(ids_).first(static_cast<size_t>(rows_) *
                                 static_cast<size_t>(model_.moe.top_k));
  }

 private:
  struct Sender {
    bool gated = false;
    const std::byte* rows = nullptr;
    int count = 0;
    int contributions = 0;  // that this instance computes for it
  };

  // Cuts what fell to this instance into one list per slot and lays out the replies.
  void GatherWork(Begun begin);

  const ModelDescription model_;
  const ExpertWeights& weights_;
  const int rank_;
  const SchedulingPolicy scheduling_;
  const int crossover_rows_;
  const kernels::Stream stream_;
  const DType wire_;
  const size_t row_bytes_;
  const size_t sender_stride_;              // R_max * K
  std::vector<LayerPlacement> placements_;  // per layer

  int layer_ = 0;
  int rows_ = 0;
  int activated_ = 0;
  std::vector<Sender> senders_;  // by attention rank
  std::vector<const void*> row_pointers_;
  std::vector<float> router_logits_;  // of one sender
  std::vector<uint16_t> gate_ids_;    // [m, R_max, K], by sender
  std::vector<float> gate_weights_;   // likewise
  std::vector<uint16_t> ids_;         // [T, K] of the round, by (rank, row)
  std::vector<Replica> replicas_;     // likewise
  AebsWorkspace aebs_;
  RowSplitWorkspace split_;
  std::vector<int> slot_count_;
  std::vector<int> slot_first_;
  std::vector<kernels::Contribution> contributions_;
  std::vector<kernels::ActiveExpert> active_;
  AlignedBuffer ffn_workspace_;
};

}  // namespace janus::dataplane
