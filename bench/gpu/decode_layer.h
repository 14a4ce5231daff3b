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

// One MoE layer of a decode step, with the launches that the instances make on a GPU
// (dataplane/attention/layers.cc, dataplane/experts/device_expert_layers.cc). It runs one attention
// instance that has all rows of the round, and one of the expert instances: norm, attention,
// projection, norm, shared experts, gate with AEBS and lists, experts, combine. There is no
// exchange. The experts read the rows where they were written. Contributions of the other expert
// instances are not computed; their memory keeps what it held.
//
// Sized once; Start allocates nothing. Confined to one thread. The context and the weights must
// outlive it.
class DecodeLayer {
 public:
  // Copies the weights of `held` into the context's memory, in the number format of its rows. There
  // are `rows` sequences of `context_tokens` positions; the layer computes the last position.
  DecodeLayer(kernels::Context& context, const dataplane::HeldModel& held, const Topology& topology,
              Rank rank, int rows, int context_tokens);

  // Queues a layer's launches. `layer` counts MoE layers; the model must have no dense ones.
  Status Start(const kernels::Stream& on, int layer);
  // Queues only the launches up to the rows for the experts.
  Status Attend(const kernels::Stream& on, int layer);
  // Queues only the launches of the expert instance: the gate, AEBS with its lists, and the
  // experts.
  Status Contribute(const kernels::Stream& on, int layer);

  // The residual stream, fp32 [rows, H], which the layer reads and adds to. ResetResidual queues,
  // on the context's stream, a copy that restores the value set last.
  Status SetResidual(const std::vector<float>& from);
  Status ResetResidual();
  Result<std::vector<float>> residual();
  // Results of the layer started last, as bytes: the rows for the experts, and the contributions by
  // (row, slot of this rank). `Load` is how many experts were activated here, and their rows.
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
  kernels::Buffer was_set_;    // the value of SetResidual
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
  kernels::Buffer first_rows_;      // of the one sender
};

// A residual stream [rows, hidden] of independent rows, uniform in [-1, 1), the same for the same
// seed. Rows must differ: similar rows would choose the same few experts.
std::vector<float> RandomResidual(int rows, int hidden, uint32_t seed);

// Block tables of `sequences` sequences, one after the other. No page belongs to two sequences, and
// the pages of a sequence are scattered, as they are after sequences have come and gone.
std::vector<int32_t> DealPages(int sequences, int pages_each);

// The least bytes and operations of one operation of the layer, with each input read once.
struct OperationLimit {
  const char* name;
  int64_t bytes = 0;
  int64_t flops = 0;
};
// For a layer with `rows` rows of `context_tokens` positions each. `load` is the part of the expert
// instance.
std::vector<OperationLimit> LimitsOf(const ModelDescription& model, int rows, int context_tokens,
                                     const DecodeLayer::Load& load);

// The sum of their times at these rates per microsecond. Each operation takes the longer of its two
// times, for bytes or for operations.
double SumOfLimits(const std::vector<OperationLimit>& limits, double bytes_per_us,
                   double flops_per_us);

}  // namespace janus::bench
