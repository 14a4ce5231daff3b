#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/function_ref.h"
#include "common/model/description.h"
#include "common/row_split.h"
#include "common/topology.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/weights/expert_weights.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// The expert side of the model over the rows of one round, as one expert instance sees it: gate and
// top-k of every row, who computes it (one replica for each activated expert, AEBS, or in large
// rounds shares of its rows; computed alike by every instance), and the FFN of what fell to this
// instance. It knows no peer and no transport; a round is Begin, Gate for every attention instance
// that takes part, Assign, Start, then, once it IsAssigned, Compute.
//
// Here is what does not depend on where it computes: host_expert_layers.h has the rest for a CPU,
// device_expert_layers.h for a GPU.
//
// Confined to the step thread. Buffers are sized once for m * R_max rows.
class ExpertLayers {
 public:
  virtual ~ExpertLayers() = default;
  ExpertLayers(const ExpertLayers&) = delete;
  ExpertLayers& operator=(const ExpertLayers&) = delete;

  void Begin(int layer);

  // Gate and top-k of what attention instance `from` has sent, which must stay valid until Compute
  // has returned. In any order of senders, each once at most; those that are not gated take no
  // part. `replies`: where contributions to it go on the device, as ExpertExchange::DeviceReplies
  // says; null, for each sender, unless ExpertLayersOptions::device_replies.
  Status Gate(Rank from, const ArrivedRows& rows, std::byte* replies = nullptr);

  // Which instance computes which expert of which gated row. On a GPU it is queued, behind the rows
  // that are on their way to it.
  virtual Status Assign() = 0;
  // On a GPU: queues what Compute needs no host for.
  virtual Status Start() { return OkStatus(); }
  // Whether Compute would not have to wait for what Assign has queued.
  virtual Result<bool> IsAssigned() { return true; }

  // Room for `count` contributions to `to`, as ExpertExchange::Begin gives it.
  using Begun = FunctionRef<ExpertExchange::Outgoing(Rank to, int count)>;
  // Computes this instance's contributions to every gated sender, in order of rank, none included.
  // When it returns they are where `begin` said, or will be, there or on the device, once that has
  // run what it was given: rows and replies stay valid until then.
  virtual Status Compute(Begun begin) = 0;

  // Of the round computed last.
  int rows() const { return rows_; }
  int activated() const { return activated_; }
  // The experts that its rows chose, [rows, K], by (rank, row).
  std::span<const uint16_t> routed() const {
    return std::span(ids_).first(static_cast<size_t>(rows_) *
                                 static_cast<size_t>(model_.moe.top_k));
  }

 protected:
  struct Sender {
    bool gated = false;
    const std::byte* rows = nullptr;
    bool on_device = false;  // its rows
    std::byte* replies = nullptr;
    int count = 0;
    int contributions = 0;       // that this instance computes for it
    std::byte* reply = nullptr;  // where they go
  };
  // What fell to this instance: the at-th contribution to a sender, of a row and top-k slot.
  struct Piece {
    size_t sender;
    size_t pair;           // row * K + slot, of the sender's
    size_t pair_of_round;  // the same among all that were gated, by (rank, row)
    size_t at;
    int slot;  // of the instance
  };

  ExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
               const Topology& topology, Rank rank, SchedulingPolicy scheduling,
               int crossover_rows);

  virtual Status GateRows(size_t sender) = 0;

  // From the round's ids, by (rank, row), in ids_: who computes what, and how much of it falls to
  // each of this instance's slots. Internal: a slot without an expert was assigned work.
  Result<Regime> Schedule();
  // Begins every reply and calls `each` for what fell to this instance, in the order of the
  // replies.
  void LayReplies(Begun begin, FunctionRef<void(const Piece&)> each);
  // Then: the activated slots, and the contributions that `each` placed by ListedAt.
  int ListActive(kernels::ActiveExpert* active) const;
  // Where a piece stands among the contributions listed by slot; once a piece, in their order.
  size_t ListedAt(const Piece& piece);

  size_t pairs() const { return ids_.size(); }  // most of a round
  const ExpertLayerWeights& layer_weights() const {
    return weights_.layers[static_cast<size_t>(layer_)];
  }
  // What the router is asked in the layer, but for where rows, ids and weights lie.
  kernels::GateTopKArgs RouterOf(int layer) const;
  // What the FFN is asked in it, but for lists and workspace.
  kernels::GroupedExpertFfnArgs FfnOf(int layer) const;

  const ModelDescription model_;
  const ExpertWeights& weights_;
  const int rank_;
  const SchedulingPolicy scheduling_;
  const int crossover_rows_;
  const DType wire_;
  const size_t row_bytes_;
  const size_t max_rows_;                         // R_max
  const size_t sender_stride_;                    // R_max * K
  const size_t slots_;                            // C
  const std::vector<LayerPlacement> placements_;  // per layer

  int layer_ = 0;
  int rows_ = 0;
  int activated_ = 0;
  std::vector<Sender> senders_;    // by attention rank
  std::vector<uint16_t> ids_;      // [T, K] of the round, by (rank, row)
  std::vector<Replica> replicas_;  // likewise
  std::vector<int> slot_count_;

 private:
  AebsWorkspace aebs_;
  RowSplitWorkspace split_;
  std::vector<int> slot_first_;
  std::vector<int> next_;  // of each slot's list
};

// As an operation takes them, with no rows.
kernels::ActiveExpert WeightsOf(const FfnTensors& tensors);

struct ExpertLayersOptions {
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;  // as ScheduleRound (common/row_split.h) takes it
  bool graphs = true;      // of a GPU: whether what rounds start is recorded
  // Of a GPU: whether every sender says where its contributions go on the device.
  bool device_replies = false;
};
// For the place's device. `weights` holds what `rank` has in the topology's placement and must
// outlive it, as the place's team and context must. What the context has not enough memory for it
// tells by TakeFailure.
std::unique_ptr<ExpertLayers> MakeExpertLayers(const ModelDescription& model,
                                               const ExpertWeights& weights,
                                               const Topology& topology, Rank rank,
                                               const ExpertLayersOptions& options,
                                               const kernels::Place& place);

}  // namespace janus::dataplane
