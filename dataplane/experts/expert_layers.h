#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/aebs.h"
#include "common/fixed_point.h"
#include "common/function_ref.h"
#include "common/model/description.h"
#include "common/row_format.h"
#include "common/row_split.h"
#include "common/topology.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/weights/expert_weights.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

struct ExpertLayersOptions {
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;  // as ScheduleRound (common/row_split.h) takes it
  bool graphs = true;      // for a GPU: whether launches are recorded
  // For a GPU: whether every Gate call passes `replies`. Not with compression.
  bool device_replies = false;
  // Of the exchange's rows and contributions. Rows are unpacked before the gate, and contributions
  // packed after the FFN, on the layers' device.
  Compression compression = Compression::kNone;
  // If they are on, contributions are computed in fp32, and the instance writes the sum of its
  // contributions to each row, on the layers' device. Then only rows are compressed. Not with
  // device_replies.
  FixedPointSums sums = {};
};

// The expert side of the model over the rows of one round, as one expert instance computes it. The
// gate and top-k run for every row. Then each activated expert is assigned to one replica (AEBS);
// in large rounds its rows may be split over replicas. Every instance computes the same assignment.
// Then the FFN computes this instance's share. It knows no peer and no transport. A round is Begin,
// Gate for every attention instance that takes part, Assign, Start, and, once IsAssigned returns
// true, Compute.
//
// This class has the parts that do not depend on the device: host_expert_layers.h has the rest for
// a CPU, device_expert_layers.h for a GPU.
//
// Confined to the step thread. Buffers are sized once for m * R_max rows.
class ExpertLayers {
 public:
  virtual ~ExpertLayers() = default;
  ExpertLayers(const ExpertLayers&) = delete;
  ExpertLayers& operator=(const ExpertLayers&) = delete;

  // `draw`: of the round, the same at every instance (common/aebs.h).
  void Begin(int layer, uint64_t draw = 0);

  // Gate and top-k of the rows from attention instance `from`, which must stay valid until Compute
  // has returned. Rows that come with choices are not gated again (only on the host). Call it at
  // most once per sender, in any order. Senders without a call take no part. `replies`: where
  // contributions to `from` go on the device, as ExpertExchange::DeviceReplies returns it. Null for
  // every sender unless ExpertLayersOptions::device_replies is set.
  Status Gate(Rank from, const ArrivedRows& rows, std::byte* replies = nullptr);

  // Assigns the experts of all gated rows to instances. On a GPU it is queued behind the rows that
  // are on their way.
  virtual Status Assign() = 0;
  // On a GPU: queues the part of Compute that needs no host.
  virtual Status Start() { return OkStatus(); }
  // Whether Compute can run without waiting for the work that Assign has queued.
  virtual Result<bool> IsAssigned() { return true; }

  // Room for `count` contributions to `to`, as ExpertExchange::Begin gives it.
  using Begun = FunctionRef<ExpertExchange::Outgoing(Rank to, int count)>;
  // Computes this instance's contributions to every gated sender, in order of rank. A sender
  // without contributions gets an empty reply. Afterwards they are where `begin` said, or will be
  // there or on the device when it has run its queued work. Rows and replies must stay valid until
  // then.
  virtual Status Compute(Begun begin) = 0;

  // Counts of the last computed round.
  int rows() const { return rows_; }
  int activated() const { return activated_; }
  // The same, of each slot that holds an expert of the round's layer. Spare slots are left out.
  std::span<const int> RowsOfHeldSlots();
  // With sums: elements of contributions that were too large and were clamped, modulo 2^32, since
  // the start. It may lag behind by a round.
  virtual uint32_t clamped() const { return 0; }
  // The experts that the rows of the round chose, [rows, K], by (rank, row).
  std::span<const uint16_t> routed() const {
    return std::span(ids_).first(static_cast<size_t>(rows_) *
                                 static_cast<size_t>(model_.moe.top_k));
  }

 protected:
  struct Sender {
    bool gated = false;
    const std::byte* rows = nullptr;
    int came = 0;                           // of `count` rows, those at `rows`
    std::optional<ArrivedChoices> choices;  // with the gate on attention
    bool on_device = false;                 // whether `rows` is in device memory
    std::byte* replies = nullptr;
    int count = 0;
    int contributions = 0;       // how many this instance computes for it
    int sums = 0;                // with sums: the rows that they are for
    std::byte* reply = nullptr;  // where they go
  };
  // One contribution of this instance: the at-th to a sender, for one row and top-k slot.
  struct Piece {
    size_t sender;
    size_t pair;           // row * K + slot, in the sender's numbering
    size_t pair_of_round;  // the same among all gated rows, by (rank, row)
    size_t at;
    int slot;  // expert slot of this instance
  };

  ExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
               const Topology& topology, Rank rank, const ExpertLayersOptions& options);

  virtual Status GateRows(size_t sender) = 0;

  // Computes the assignment from the round's ids in ids_, by (rank, row), and counts the work of
  // each of this instance's slots. Internal: work was assigned to a slot without an expert.
  Result<Regime> Schedule();
  // Begins every reply, and calls `each` for this instance's contributions in the order of the
  // replies. With sums it also fills ends_.
  void LayReplies(Begun begin, FunctionRef<void(const Piece&)> each);
  // Afterwards: lists the activated slots and the contributions that `each` placed by ListedAt.
  int ListActive(kernels::ActiveExpert* active) const;
  // The index of a piece in the list of contributions by slot. Call it once per piece, in their
  // order.
  size_t ListedAt(const Piece& piece);

  size_t pairs() const { return ids_.size(); }  // most of one round
  const ExpertLayerWeights& layer_weights() const {
    return weights_.layers[static_cast<size_t>(layer_)];
  }
  // With sums: arguments of AddTerms for a sender, without addresses.
  kernels::AddTermsArgs AddTermsOf(const Sender& sender) const;
  // The FFN's arguments for the layer, without lists and workspace.
  kernels::GroupedExpertFfnArgs FfnOf(int layer) const;

  const ModelDescription model_;
  const ExpertWeights& weights_;
  const int rank_;
  const SchedulingPolicy scheduling_;
  const int crossover_rows_;
  const DType wire_;
  const RowFormat format_;  // of rows and contributions in the exchange
  const FixedPointSums sums_;
  const size_t row_bytes_;                        // of the wire type
  const size_t term_bytes_;                       // of a contribution, as the FFN writes it
  const size_t max_rows_;                         // R_max
  const size_t sender_stride_;                    // R_max * K
  const size_t slots_;                            // C
  const std::vector<LayerPlacement> placements_;  // per layer

  int layer_ = 0;
  uint64_t draw_ = 0;
  int rows_ = 0;
  int activated_ = 0;
  std::vector<Sender> senders_;            // by attention rank
  std::vector<uint16_t> ids_;              // [T, K] of the round, by (rank, row)
  std::vector<Replica> replicas_;          // likewise
  std::vector<std::vector<size_t>> held_;  // per layer: slots with an expert
  std::vector<int> held_rows_;
  std::vector<int> slot_count_;
  std::vector<int32_t> ends_;  // with sums: by sender [m, R_max], as AddTerms takes them

 private:
  AebsWorkspace aebs_;
  RowSplitWorkspace split_;
  std::vector<int> slot_first_;
  std::vector<int> next_;  // next entry of each slot's list
};

// The tensors as operations take them, without rows.
kernels::ActiveExpert WeightsOf(const FfnTensors& tensors);

// Makes the layers for the place's device. `weights` holds the experts of `rank` in the topology's
// placement. It must outlive the result, as must the place's team and context. If the context lacks
// memory, it reports that by TakeFailure.
std::unique_ptr<ExpertLayers> MakeExpertLayers(const ModelDescription& model,
                                               const ExpertWeights& weights,
                                               const Topology& topology, Rank rank,
                                               const ExpertLayersOptions& options,
                                               const kernels::Place& place);

}  // namespace janus::dataplane
