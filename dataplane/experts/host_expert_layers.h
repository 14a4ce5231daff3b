#pragma once

#include <vector>

#include "dataplane/experts/expert_layers.h"

namespace janus::dataplane {

// For a CPU. Rows are gated as they arrive. Rows and contributions are read and written directly in
// the exchange's slots, or if the exchange compresses, in memory of their own. With sums,
// contributions have memory of their own.
class HostExpertLayers final : public ExpertLayers {
 public:
  HostExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                   const Topology& topology, Rank rank, const ExpertLayersOptions& options,
                   const kernels::Place& place);

  Status Assign() override;
  Status Compute(Begun begin) override;
  uint32_t clamped() const override { return clamped_; }

 private:
  Status GateRows(size_t sender) override;
  // The first of a sender's rows, of the wire type, and of the contributions to it, as the FFN
  // writes them.
  const std::byte* RowsOf(size_t sender) const;
  std::byte* RepliesTo(size_t sender) const;
  // Where one of a sender's rows lies among those that came.
  size_t PlaceOf(size_t sender, size_t row) const;

  const kernels::Stream stream_;
  std::vector<const void*> row_pointers_;             // of one sender
  std::vector<float> gate_logits_;                    // of one sender
  std::vector<uint16_t> gate_ids_;                    // [m, R_max, K], by sender
  std::vector<float> gate_weights_;                   // likewise
  std::vector<kernels::ActiveExpert> active_;         // [C]
  std::vector<kernels::Contribution> contributions_;  // [m * R_max * K]
  kernels::Buffer ffn_workspace_;
  // If the exchange compresses: rows, of the wire type.
  kernels::Buffer unpacked_;  // [m, R_max, H]
  // The same, or with sums: contributions, of the wire type, or with sums in fp32.
  kernels::Buffer replies_;  // [m, R_max * K, H]
  uint32_t clamped_ = 0;
};

}  // namespace janus::dataplane
