#pragma once

#include <vector>

#include "dataplane/experts/expert_layers.h"
#include "kernels/device/row_graphs.h"
#include "kernels/device/staging.h"
#include "kernels/placement_view.h"

namespace janus::dataplane {

// For a GPU. Rows are copied up from the exchange's slots as they arrive, and contributions are
// copied down into them. Payloads that peers have, or read, in GPU memory stay there. Once all rows
// have arrived the device gates, schedules and computes without the host (kernels/aebs_round.h), in
// two pieces that were recorded for certain numbers of rows. Meanwhile the host computes the same
// schedule from the ids, and lays out the replies, because it must know their sizes.
//
// In large rounds an expert's rows may be split over its replicas. The host schedules such rounds
// and writes the lists of each expert's rows. If the ids show only afterwards that a round is
// split, the host replaces the device's lists.
class DeviceExpertLayers final : public ExpertLayers {
 public:
  DeviceExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                     const Topology& topology, Rank rank, const ExpertLayersOptions& options,
                     const kernels::Place& place);

  Status Assign() override;
  Status Start() override;
  Result<bool> IsAssigned() override;
  Status Compute(Begun begin) override;
  uint32_t clamped() const override;

 private:
  // Pieces of a round that are started by one launch.
  enum class Work : unsigned char {
    kRoute = 0,    // the gate, AEBS, the lists
    kExperts = 1,  // the FFN over them
  };
  // In round_, behind the number of rows, int32.
  static constexpr size_t kRepliesAt = 64;

  Status GateRows(size_t sender) override;
  void PlaceTables();
  Status RecordAll();
  // CanRoute: whether the device can schedule, given the instance's slots. RoutesItself: whether it
  // schedules this round.
  bool CanRoute() const;
  bool RoutesItself() const;
  // Copies the description of the round up: the number of rows, pointers to `computed` rows in
  // order, each sender's first row, and where the contributions to each sender go.
  Status PushRows(int computed);
  // Offsets in round_.
  size_t FirstRowsAt() const { return kRepliesAt + senders_.size() * sizeof(std::byte*); }
  size_t PointersAt() const {
    return AlignUp(FirstRowsAt() + senders_.size() * sizeof(int32_t), alignof(void*));
  }
  // Where the first contribution to a sender goes.
  std::byte* RepliesTo(size_t sender) const;
  Status StartWork(Work work);
  Status StartOn(const kernels::Stream& on, Work work, int layer, int rows);
  kernels::GateTopKArgs GateOf(int layer, int rows) const;
  // Arguments of the FFN over the lists in device memory, without their lengths.
  kernels::GroupedExpertFfnArgs FfnOverLists(int layer) const;
  void TakeIds();
  // Computes from the lists that the host scheduled.
  Status ComputeLists(Begun begin);
  // Once the contributions are queued: adds those of each row, and copies the sums out.
  Status SendSums();
  // The first of a sender's rows in device memory.
  const std::byte* DeviceRows(size_t sender) const;

  const kernels::Stream stream_;
  kernels::Context& context_;
  const bool device_replies_;
  kernels::RowGraphs graphs_;  // [2, layers]
  bool routes_ = false;        // the device routes and computes the round itself
  std::unique_ptr<kernels::Event> ids_are_down_;

  kernels::Buffer rows_in_;  // [m, R_max, H] of the wire type
  // int32 rows; by sender pointers to replies [m] and int32 first rows [m]; pointers to rows
  // [m * R_max].
  kernels::Staging round_;
  kernels::Buffer gate_logits_;                // fp32 [m * R_max, E]
  kernels::Buffer gate_workspace_;             // for the most rows at once
  kernels::Staging gate_ids_;                  // uint16 [m * R_max, K]
  kernels::Staging gate_weights_;              // fp32, likewise
  kernels::Buffer tables_;                     // of the placements
  std::vector<kernels::PlacementView> views_;  // per layer, into it
  kernels::Buffer tensors_;                    // ActiveExpert [layers, C], without rows
  kernels::Buffer scratch_;                    // of RouteRound
  const size_t contributions_at_;              // in work_
  kernels::Staging work_;  // ActiveExpert [C], Contribution [m * R_max * K]: the lists
  kernels::Buffer ffn_workspace_;
  // [m, R_max * K, H] of the wire type, or with sums in fp32; empty with device_replies
  kernels::Buffer replies_;
  // If the exchange compresses, in its format: rows [m, R_max], contributions [m, R_max * K].
  kernels::Buffer packed_in_;
  kernels::Buffer packed_replies_;
  // With sums:
  kernels::Buffer sums_out_;       // [m, R_max]
  kernels::Staging staged_ends_;   // int32 [m, R_max]
  kernels::Staging clamped_word_;  // uint32
};

}  // namespace janus::dataplane
