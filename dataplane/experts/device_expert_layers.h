#pragma once

#include <vector>

#include "dataplane/experts/expert_layers.h"
#include "kernels/device/row_graphs.h"
#include "kernels/device/staging.h"
#include "kernels/placement_view.h"

namespace janus::dataplane {

// On a GPU: rows go up from the exchange's slots as they arrive and contributions come down into
// them, but for what peers have, or read, in a GPU's memory: that stays where it is. Once all rows
// are there the device gates them, schedules and computes without the host (kernels/aebs_round.h),
// as two pieces that were recorded for numbers of rows. Meanwhile the host schedules for itself,
// from the ids alone, and lays out the replies, whose sizes are its to know.
//
// Large rounds, in which an expert's rows may be split over its replicas, are scheduled by the
// host, which then writes the lists of each expert's rows. Where that shows only in the ids of a
// round that the device has scheduled, its lists are written anew.
class DeviceExpertLayers final : public ExpertLayers {
 public:
  DeviceExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                     const Topology& topology, Rank rank, const ExpertLayersOptions& options,
                     const kernels::Place& place);

  Status Assign() override;
  Status Start() override;
  Result<bool> IsAssigned() override;
  Status Compute(Begun begin) override;

 private:
  // What is started at once.
  enum class Work : unsigned char {
    kRoute = 0,    // the gate, AEBS, the lists
    kExperts = 1,  // the FFN over them
  };
  // In round_, behind the number of rows, int32.
  static constexpr size_t kRepliesAt = 64;

  Status GateRows(size_t sender) override;
  void PlaceTables();
  Status RecordAll();
  // Whether the device can, by the instance's slots; and whether it does, this round.
  bool CanRoute() const;
  bool RoutesItself() const;
  // Whose rows there are, how many, where they are, in order, and where the contributions to their
  // senders go; as many pointers to rows as are computed.
  Status PushRows(int computed);
  // In round_.
  size_t FirstRowsAt() const { return kRepliesAt + senders_.size() * sizeof(std::byte*); }
  size_t PointersAt() const {
    return AlignUp(FirstRowsAt() + senders_.size() * sizeof(int32_t), alignof(void*));
  }
  // The first contribution to a sender.
  std::byte* RepliesTo(size_t sender) const;
  Status StartWork(Work work);
  Status StartOn(const kernels::Stream& on, Work work, int layer, int rows);
  kernels::GateTopKArgs GateOf(int layer, int rows) const;
  // The FFN over the lists in the device's memory, but for their lengths.
  kernels::GroupedExpertFfnArgs FfnOverLists(int layer) const;
  void TakeIds();
  // Of what the host scheduled.
  Status ComputeLists(Begun begin);
  // The first of a sender's rows in a device's memory.
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
  kernels::Buffer gate_workspace_;             // of the most rows at once
  kernels::Staging gate_ids_;                  // uint16 [m * R_max, K]
  kernels::Staging gate_weights_;              // fp32, likewise
  kernels::Buffer tables_;                     // of the placements
  std::vector<kernels::PlacementView> views_;  // per layer, into it
  kernels::Buffer tensors_;                    // ActiveExpert [layers, C]: without rows
  kernels::Buffer scratch_;                    // of RouteRound
  const size_t contributions_at_;              // in work_
  kernels::Staging work_;  // ActiveExpert [C], Contribution [m * R_max * K]; the device's or the
                           // host's lists
  kernels::Buffer ffn_workspace_;
  kernels::Buffer replies_;  // [m, R_max * K, H] of the wire type; none with device_replies
};

}  // namespace janus::dataplane
