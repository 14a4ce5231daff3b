#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/function_ref.h"
#include "common/model/description.h"
#include "common/row_split.h"
#include "common/topology.h"
#include "dataplane/comm/exchange.h"
#include "dataplane/experts/weights.h"
#include "kernels/device/context.h"
#include "kernels/device/staging.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// The expert side of the model over the rows of one round, as one expert instance sees it: gate and
// top-k of every row, who computes it (one replica for each activated expert, AEBS, or in large
// rounds shares of its rows; computed alike by every instance), and the FFN of what fell to this
// instance. It knows no peer and no transport; a round is Begin, Gate for every attention instance
// that takes part, Assign, Compute.
//
// On a GPU rows go up from the exchange's slots and contributions come down into them. Who computes
// what the host says from the ids that come down: it writes the lists of each expert's rows and
// lays out the replies, whose sizes are the host's to know, so a schedule made on the device would
// be waited for as the ids are, a launch later.
//
// Confined to the step thread. Buffers are sized once for m * R_max rows; what the place's context
// has not enough memory for it tells by TakeFailure.
class ExpertLayers {
 public:
  // `weights` holds what `rank` has in the topology's placement and must outlive this.
  // `crossover_rows`: as ScheduleRound (common/row_split.h) takes it.
  ExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
               const Topology& topology, Rank rank, SchedulingPolicy scheduling, int crossover_rows,
               const kernels::Place& place);

  void Begin(int layer);

  // Gate and top-k of the rows [count, H] of the wire type of attention instance `from`, which must
  // stay valid until Compute has returned. In any order of senders, each once at most; those that
  // are not gated take no part.
  Status Gate(Rank from, const std::byte* rows, int count);

  // Which instance computes which expert of which gated row.
  Status Assign();

  // Room for `count` contributions to `to`, as ExpertExchange::Begin gives it.
  using Begun = FunctionRef<ExpertExchange::Outgoing(Rank to, int count)>;
  // Computes this instance's contributions to every gated sender, in order of rank, none included;
  // when it returns they are where `begin` said.
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
    // Of a GPU: where they come down to, and the first of them in replies_.
    std::byte* reply = nullptr;
    size_t first_reply = 0;
  };

  // Cuts what fell to this instance into one list per slot and lays out the replies.
  void GatherWork(Begun begin);
  void PrepareDevice();
  // The first of a sender's rows in the device's memory.
  std::byte* DeviceRows(size_t sender) const;

  const ModelDescription model_;
  const ExpertWeights& weights_;
  const int rank_;
  const SchedulingPolicy scheduling_;
  const int crossover_rows_;
  const kernels::Stream stream_;
  kernels::Context& context_;
  const bool is_host_;  // whether the device's memory is the host's
  const DType wire_;
  const size_t row_bytes_;
  const size_t max_rows_;                   // R_max
  const size_t sender_stride_;              // R_max * K
  std::vector<LayerPlacement> placements_;  // per layer

  int layer_ = 0;
  int rows_ = 0;
  int activated_ = 0;
  std::vector<Sender> senders_;            // by attention rank
  std::vector<const void*> row_pointers_;  // of the host, of one sender
  kernels::Buffer router_logits_;          // fp32, of one sender
  kernels::Staging gate_ids_;              // uint16 [m, R_max, K], by sender
  kernels::Staging gate_weights_;          // fp32, likewise
  std::vector<uint16_t> ids_;              // [T, K] of the round, by (rank, row)
  std::vector<Replica> replicas_;          // likewise
  AebsWorkspace aebs_;
  RowSplitWorkspace split_;
  std::vector<int> slot_count_;
  std::vector<int> slot_first_;
  const size_t contributions_at_;  // in work_
  kernels::Staging work_;          // ActiveExpert [C], Contribution [m * R_max * K]
  kernels::Buffer ffn_workspace_;
  // Of a GPU.
  kernels::Buffer device_rows_;          // [m, R_max, H] of the wire type
  kernels::Buffer device_row_pointers_;  // [m, R_max], into them
  kernels::Buffer gate_workspace_;       // of one sender
  kernels::Buffer replies_;              // [m * R_max * K, H] of the wire type
};

}  // namespace janus::dataplane
