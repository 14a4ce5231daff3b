#include "dataplane/experts/expert_layers.h"

#include <algorithm>

namespace janus::dataplane {
namespace {

std::vector<LayerPlacement> PlacementsOf(const ModelDescription& model,
                                         const Placement& placement) {
  std::vector<LayerPlacement> placements;
  for (int layer = 0; layer < model.moe_layers(); ++layer) {
    placements.push_back(LayerPlacement::Of(placement, layer, model.moe.experts));
  }
  return placements;
}

}  // namespace

ExpertLayers::ExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                           const Topology& topology, Rank rank, SchedulingPolicy scheduling,
                           int crossover_rows, const kernels::Stream& stream)
    : model_(model),
      weights_(weights),
      rank_(rank.value),
      scheduling_(scheduling),
      crossover_rows_(crossover_rows),
      stream_(stream),
      wire_(WireType(model)),
      row_bytes_(static_cast<size_t>(model.hidden) * static_cast<size_t>(SizeOf(wire_))),
      sender_stride_(static_cast<size_t>(topology.max_rows_per_round) *
                     static_cast<size_t>(model.moe.top_k)),
      placements_(PlacementsOf(model, topology.placement)),
      aebs_(model.moe.experts, topology.n()),
      split_(model.moe.experts, topology.n(), topology.placement.total_slots()) {
  const auto m = static_cast<size_t>(topology.m());
  const auto rows = static_cast<size_t>(topology.max_rows_per_round);
  const auto slots = static_cast<size_t>(topology.experts[static_cast<size_t>(rank_)].slots);
  senders_.resize(m);
  row_pointers_.resize(rows);
  router_logits_.resize(rows * static_cast<size_t>(model.moe.experts));
  gate_ids_.resize(m * sender_stride_);
  gate_weights_.resize(m * sender_stride_);
  ids_.resize(m * sender_stride_);
  replicas_.resize(m * sender_stride_);
  slot_count_.resize(slots);
  slot_first_.resize(slots);
  contributions_.resize(m * sender_stride_);
  active_.resize(slots);
  const auto ffn = kernels::GroupedExpertFfnWorkspace::For(static_cast<int64_t>(m * sender_stride_),
                                                           model.moe.intermediate, wire_);
  ffn_workspace_ = AlignedBuffer(static_cast<size_t>(ffn.bytes));
}

void ExpertLayers::Begin(int layer) {
  layer_ = layer;
  rows_ = 0;
  std::fill(senders_.begin(), senders_.end(), Sender());
}

Status ExpertLayers::Gate(Rank from, const std::byte* rows, int count) {
  const auto at = static_cast<size_t>(from.value);
  senders_[at] = {true, rows, count, 0};
  rows_ += count;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    row_pointers_[i] = rows + i * row_bytes_;
  }
  const Tensor& router = weights_.layers[static_cast<size_t>(layer_)].router;
  kernels::GateTopKArgs args;
  args.x_rows = row_pointers_.data();
  args.x_dtype = wire_;
  args.weight = router.data;
  args.weight_dtype = router.dtype;
  args.logits = router_logits_.data();
  args.ids = gate_ids_.data() + at * sender_stride_;
  args.weights = gate_weights_.data() + at * sender_stride_;
  args.rows = count;
  args.hidden = model_.hidden;
  args.experts = model_.moe.experts;
  args.top_k = model_.moe.top_k;
  args.score = model_.moe.score;
  args.renormalize = model_.moe.renormalize;
  args.weight_scale = model_.moe.weight_scale;
  args.groups = model_.moe.groups;
  args.top_groups = model_.moe.top_groups;
  return kernels::GateTopK(stream_, args);
}

void ExpertLayers::Assign() {
  const auto k = static_cast<size_t>(model_.moe.top_k);
  size_t total = 0;
  for (size_t a = 0; a < senders_.size(); ++a) {
    if (!senders_[a].gated) continue;
    const size_t count = static_cast<size_t>(senders_[a].count) * k;
    std::copy_n(gate_ids_.begin() + static_cast<ptrdiff_t>(a * sender_stride_), count,
                ids_.begin() + static_cast<ptrdiff_t>(total));
    total += count;
  }
  ScheduleRound(scheduling_, crossover_rows_, placements_[static_cast<size_t>(layer_)],
                std::span(ids_).first(total), model_.moe.top_k, aebs_, split_,
                std::span(replicas_).first(total));
}

void ExpertLayers::GatherWork(Begun begin) {
  const auto k = static_cast<size_t>(model_.moe.top_k);
  std::fill(slot_count_.begin(), slot_count_.end(), 0);
  size_t at = 0;
  for (Sender& sender : senders_) {
    if (!sender.gated) continue;
    for (size_t i = 0; i < static_cast<size_t>(sender.count) * k; ++i, ++at) {
      if (replicas_[at].instance != rank_) continue;
      ++slot_count_[replicas_[at].slot];
      ++sender.contributions;
    }
  }
  int first = 0;
  for (size_t slot = 0; slot < slot_count_.size(); ++slot) {
    slot_first_[slot] = first;
    first += slot_count_[slot];
  }
  at = 0;
  std::vector<int>& next = slot_count_;  // counts again while the lists are filled
  std::fill(next.begin(), next.end(), 0);
  for (size_t a = 0; a < senders_.size(); ++a) {
    const Sender& sender = senders_[a];
    if (!sender.gated) continue;
    const ExpertExchange::Outgoing out = begin(Rank{static_cast<int32_t>(a)}, sender.contributions);
    size_t written = 0;
    for (size_t i = 0; i < static_cast<size_t>(sender.count) * k; ++i, ++at) {
      const Replica replica = replicas_[at];
      if (replica.instance != rank_) continue;
      out.refs[written] = {static_cast<uint16_t>(i / k), static_cast<uint8_t>(i % k), 0};
      kernels::Contribution& c =
          contributions_[static_cast<size_t>(slot_first_[replica.slot] + next[replica.slot]++)];
      c.x = sender.rows + i / k * row_bytes_;
      c.y = out.rows + written * row_bytes_;
      c.weight = gate_weights_[a * sender_stride_ + i];
      ++written;
    }
  }
}

Status ExpertLayers::Compute(Begun begin) {
  GatherWork(begin);
  const ExpertLayerWeights& layer = weights_.layers[static_cast<size_t>(layer_)];
  kernels::GroupedExpertFfnArgs args;
  for (size_t slot = 0; slot < slot_count_.size(); ++slot) {
    if (slot_count_[slot] == 0) continue;
    const std::optional<FfnTensors>& tensors = layer.slots[slot];
    if (!tensors) {
      return Internal("slot " + std::to_string(slot) + " was assigned work and holds no expert");
    }
    kernels::ActiveExpert& expert = active_[static_cast<size_t>(args.num_experts++)];
    expert.gate = tensors->gate.data;
    expert.up = tensors->up.data;
    expert.down = tensors->down.data;
    expert.first = slot_first_[slot];
    expert.count = slot_count_[slot];
    args.num_contributions += expert.count;
    args.weight_dtype = tensors->gate.dtype;
  }
  activated_ = args.num_experts;
  args.experts = active_.data();
  args.contributions = contributions_.data();
  args.hidden = model_.hidden;
  args.intermediate = model_.moe.intermediate;
  args.row_dtype = wire_;
  args.y_dtype = wire_;
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  return kernels::GroupedExpertFfn(stream_, args);
}

}  // namespace janus::dataplane
