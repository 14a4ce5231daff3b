#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/topology.h"
#include "dataplane/attention/self_attention.h"
#include "dataplane/engine/kv_page_pool.h"
#include "kernels/aebs_round.h"
#include "kernels/device/context.h"
#include "kernels/placement_view.h"
#include "tests/support/held_model.h"

namespace janus::bench {

// One MoE layer of a decode step as the instances start it on a GPU (dataplane/attention/layers.cc,
// dataplane/experts/device_expert_layers.cc), for one attention instance whose rows are all rows
// of the round and for one of the expert instances: norm, attention, projection, norm, shared
// experts, router with AEBS and lists, experts, combine. No exchange: the experts read the rows
// where they lie, and contributions of other instances, which are not computed, are whatever lies
// in their place.
//
// Sized once; Start takes no memory. Confined to one thread. The context and the weights outlive
// it.
class DecodeLayer {
 public:
  // Weights of `held` in the context's memory, of the number format of its rows; `rows` sequences
  // of `context_tokens` positions, the last of which is computed.
  DecodeLayer(kernels::Context& context, const dataplane::HeldModel& held, const Topology& topology,
              Rank rank, int rows, int context_tokens);

  // Queues a layer's launches. `layer` counts MoE layers, of a model that has no others.
  Status Start(const kernels::Stream& on, int layer);
  // Of these, up to the rows for the experts.
  Status Attend(const kernels::Stream& on, int layer);

  // The residual stream, fp32 [rows, H], that the layer reads and adds to. ResetResidual queues, on
  // the context's stream, that it is again what was set last.
  Status SetResidual(const std::vector<float>& from);
  Status ResetResidual();
  Result<std::vector<float>> residual();
  // Of the layer started last: rows for the experts and contributions by (row, slot of the rank's
  // own), as bytes; how many experts were activated here, and their rows.
  Result<std::vector<std::byte>> sent();
  Result<std::vector<std::byte>> contributions(int count);
  struct Load {
    int experts = 0;
    int rows = 0;
  };
  Result<Load> load();

 private:
  Status Shared(const kernels::Stream& on, int layer);
  Status Route(const kernels::Stream& on, int layer);
  Status Experts(const kernels::Stream& on, int layer);
  Status Combine(const kernels::Stream& on);
  void PlaceRows(int context_tokens);
  void PlaceExperts(const Topology& topology);
  void FillCache();
  template <class T>
  kernels::Buffer CopyOf(const std::vector<T>& values) {
    return context_.AllocateCopyOrNote(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  Result<std::vector<T>> CopyOut(const void* from, size_t count);

  kernels::Context& context_;
  const dataplane::HeldModel& held_;
  const ModelDescription& model_;
  const int rank_;
  const int slots_;
  const int rows_;
  const DType wire_;
  const size_t row_bytes_;  // of the wire type
  dataplane::ExpertWeights share_;
  std::unique_ptr<dataplane::KvPagePool> cache_;
  std::unique_ptr<dataplane::SelfAttention> attention_;
  std::vector<dataplane::PositionClass> classes_;
  std::vector<kernels::KvRow> host_rows_;

  kernels::Buffer tables_;     // int32 [T, pages]
  kernels::Buffer kv_rows_;    // KvRow [T]
  kernels::Buffer positions_;  // int32 [T]
  kernels::Buffer residual_;   // fp32 [T,H]
  kernels::Buffer was_set_;    // what SetResidual gave it
  kernels::Buffer normed_;     // [T,H] of the wire type
  kernels::Buffer attended_;
  kernels::Buffer to_experts_;
  kernels::Buffer local_;          // fp32 [T,H], with shared experts
  kernels::Buffer local_rows_;     // Contribution [T]
  kernels::Buffer local_experts_;  // ActiveExpert [layers]
  kernels::Buffer local_workspace_;
  kernels::Buffer row_pointers_;  // [T]
  kernels::Buffer router_logits_;
  kernels::Buffer ids_;
  kernels::Buffer weights_;
  kernels::Buffer gate_workspace_;
  std::vector<LayerPlacement> placements_;
  std::vector<kernels::Buffer> placement_tables_;  // four a layer
  std::vector<kernels::PlacementView> views_;
  kernels::Buffer tensors_;  // ActiveExpert [layers, C]
  kernels::Buffer scratch_;
  kernels::Buffer active_;         // ActiveExpert [RoutedExperts]
  kernels::Buffer contributions_;  // Contribution [T*K]
  kernels::Buffer workspace_;
  kernels::Buffer replies_;         // [T*K, H] of the wire type
  kernels::Buffer reply_pointers_;  // [T*K]
  kernels::Buffer first_rows_;      // of one sender
};

// A residual stream [rows, hidden] of rows that have nothing in common, uniform in [-1, 1), the
// same for the same seed. Rows that are alike would choose the same experts: a layer of almost
// none.
std::vector<float> RandomResidual(int rows, int hidden, uint32_t seed);

// Block tables of so many sequences, one after the other: no page is two's, and pages of a sequence
// lie apart, as they do once sequences have come and gone.
std::vector<int32_t> DealPages(int sequences, int pages_each);

// What an operation of the layer moves and computes at the least, each input read once.
struct OperationLimit {
  const char* name;
  int64_t bytes = 0;
  int64_t flops = 0;
};
// Of a layer with `rows` rows of `context_tokens` positions each, of which `load` falls to the
// expert instance.
std::vector<OperationLimit> LimitsOf(const ModelDescription& model, int rows, int context_tokens,
                                     const DecodeLayer::Load& load);

// The time that they take one after the other at so many bytes and operations a microsecond, each
// bound by the slower of the two.
double SumOfLimits(const std::vector<OperationLimit>& limits, double bytes_per_us,
                   double flops_per_us);

}  // namespace janus::bench
