#include "dataplane/experts/expert_layers.h"

#include <algorithm>

namespace janus::dataplane {
namespace {

// For so many rows at once a GPU's router has room; more are more launches.
constexpr int64_t kMostGateRows = 256;

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
                           int crossover_rows, const kernels::Place& place)
    : model_(model),
      weights_(weights),
      rank_(rank.value),
      scheduling_(scheduling),
      crossover_rows_(crossover_rows),
      stream_(place.stream),
      context_(*place.context),
      is_host_(context_.is_host()),
      wire_(WireType(model)),
      row_bytes_(static_cast<size_t>(model.hidden) * static_cast<size_t>(SizeOf(wire_))),
      max_rows_(static_cast<size_t>(topology.max_rows_per_round)),
      sender_stride_(max_rows_ * static_cast<size_t>(model.moe.top_k)),
      placements_(PlacementsOf(model, topology.placement)),
      aebs_(model.moe.experts, topology.n()),
      split_(model.moe.experts, topology.n(), topology.placement.total_slots()),
      contributions_at_(static_cast<size_t>(topology.experts[static_cast<size_t>(rank_)].slots) *
                        sizeof(kernels::ActiveExpert)) {
  const auto m = static_cast<size_t>(topology.m());
  const auto slots = static_cast<size_t>(topology.experts[static_cast<size_t>(rank_)].slots);
  const size_t pairs = m * sender_stride_;  // (row, top-k slot)
  senders_.resize(m);
  router_logits_ =
      context_.TakeOrNote(max_rows_ * static_cast<size_t>(model.moe.experts) * sizeof(float));
  gate_ids_ = kernels::Staging(context_, pairs * sizeof(uint16_t));
  gate_weights_ = kernels::Staging(context_, pairs * sizeof(float));
  ids_.resize(pairs);
  replicas_.resize(pairs);
  slot_count_.resize(slots);
  slot_first_.resize(slots);
  work_ = kernels::Staging(context_, contributions_at_ + pairs * sizeof(kernels::Contribution));
  const auto ffn = kernels::GroupedExpertFfnWorkspace::For(static_cast<int64_t>(pairs),
                                                           model.moe.intermediate, wire_);
  ffn_workspace_ = context_.TakeOrNote(static_cast<size_t>(ffn.bytes));
  if (is_host_) {
    row_pointers_.resize(max_rows_);
  } else {
    PrepareDevice();
  }
}

void ExpertLayers::PrepareDevice() {
  const size_t rows = senders_.size() * max_rows_;
  device_rows_ = context_.TakeOrNote(rows * row_bytes_);
  gate_workspace_ = context_.TakeOrNote(static_cast<size_t>(
      kernels::GateTopKWorkspaceBytes(std::min(static_cast<int64_t>(max_rows_), kMostGateRows),
                                      model_.hidden, model_.moe.experts)));
  replies_ = context_.TakeOrNote(senders_.size() * sender_stride_ * row_bytes_);
  std::vector<const void*> pointers(rows);
  for (size_t i = 0; i < rows; ++i) pointers[i] = device_rows_.data() + i * row_bytes_;
  device_row_pointers_ = context_.TakeCopyOrNote(pointers.data(), rows * sizeof(pointers[0]));
}

std::byte* ExpertLayers::DeviceRows(size_t sender) const {
  return device_rows_.data() + sender * max_rows_ * row_bytes_;
}

void ExpertLayers::Begin(int layer) {
  layer_ = layer;
  rows_ = 0;
  std::fill(senders_.begin(), senders_.end(), Sender());
}

Status ExpertLayers::Gate(Rank from, const std::byte* rows, int count) {
  const auto at = static_cast<size_t>(from.value);
  senders_[at] = {true, rows, count, 0, nullptr, 0};
  rows_ += count;
  const void* const* pointers = row_pointers_.data();
  if (is_host_) {
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      row_pointers_[i] = rows + i * row_bytes_;
    }
  } else {
    pointers = device_row_pointers_.as<const void* const>() + at * max_rows_;
    JANUS_RETURN_IF_ERROR(
        context_.CopyIn(DeviceRows(at), rows, static_cast<size_t>(count) * row_bytes_));
  }
  const size_t first = at * sender_stride_;
  const Tensor& router = weights_.layers[static_cast<size_t>(layer_)].router;
  const Tensor& bias = weights_.layers[static_cast<size_t>(layer_)].router_bias;
  kernels::GateTopKArgs args;
  args.x_rows = pointers;
  args.x_dtype = wire_;
  args.weight = router.data;
  args.weight_dtype = router.dtype;
  args.logits = router_logits_.as<float>();
  args.ids = gate_ids_.device_at<uint16_t>(0) + first;
  args.weights = gate_weights_.device_at<float>(0) + first;
  args.rows = count;
  args.hidden = model_.hidden;
  args.experts = model_.moe.experts;
  args.top_k = model_.moe.top_k;
  args.score = model_.moe.score;
  args.bias = static_cast<const float*>(bias.data);
  args.renormalize = model_.moe.renormalize;
  args.weight_scale = model_.moe.weight_scale;
  args.groups = model_.moe.groups;
  args.top_groups = model_.moe.top_groups;
  args.workspace = gate_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(gate_workspace_.size());
  JANUS_RETURN_IF_ERROR(kernels::GateTopK(stream_, args));
  const size_t chosen = static_cast<size_t>(count) * static_cast<size_t>(model_.moe.top_k);
  JANUS_RETURN_IF_ERROR(gate_ids_.Pull(first * sizeof(uint16_t), chosen * sizeof(uint16_t)));
  return gate_weights_.Pull(first * sizeof(float), chosen * sizeof(float));
}

Status ExpertLayers::Assign() {
  JANUS_RETURN_IF_ERROR(context_.Wait());
  const auto k = static_cast<size_t>(model_.moe.top_k);
  size_t total = 0;
  for (size_t a = 0; a < senders_.size(); ++a) {
    if (!senders_[a].gated) continue;
    const size_t count = static_cast<size_t>(senders_[a].count) * k;
    std::copy_n(gate_ids_.host_at<uint16_t>(0) + a * sender_stride_, count,
                ids_.begin() + static_cast<ptrdiff_t>(total));
    total += count;
  }
  ScheduleRound(scheduling_, crossover_rows_, placements_[static_cast<size_t>(layer_)],
                std::span(ids_).first(total), model_.moe.top_k, aebs_, split_,
                std::span(replicas_).first(total));
  return OkStatus();
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
  size_t replies = 0;
  auto* const contributions = work_.host_at<kernels::Contribution>(contributions_at_);
  const auto* const weights = gate_weights_.host_at<float>(0);
  std::vector<int>& next = slot_count_;  // counts again while the lists are filled
  std::fill(next.begin(), next.end(), 0);
  for (size_t a = 0; a < senders_.size(); ++a) {
    Sender& sender = senders_[a];
    if (!sender.gated) continue;
    const ExpertExchange::Outgoing out = begin(Rank{static_cast<int32_t>(a)}, sender.contributions);
    sender.reply = out.rows;
    sender.first_reply = replies;
    const std::byte* const x = is_host_ ? sender.rows : DeviceRows(a);
    std::byte* const y = is_host_ ? out.rows : replies_.data() + replies * row_bytes_;
    replies += static_cast<size_t>(sender.contributions);
    size_t written = 0;
    for (size_t i = 0; i < static_cast<size_t>(sender.count) * k; ++i, ++at) {
      const Replica replica = replicas_[at];
      if (replica.instance != rank_) continue;
      out.refs[written] = {static_cast<uint16_t>(i / k), static_cast<uint8_t>(i % k), 0};
      kernels::Contribution& c = contributions[slot_first_[replica.slot] + next[replica.slot]++];
      c.x = x + i / k * row_bytes_;
      c.y = y + written * row_bytes_;
      c.weight = weights[a * sender_stride_ + i];
      ++written;
    }
  }
}

Status ExpertLayers::Compute(Begun begin) {
  JANUS_RETURN_IF_ERROR(work_.Reopen());
  GatherWork(begin);
  auto* const active = work_.host_at<kernels::ActiveExpert>(0);
  const ExpertLayerWeights& layer = weights_.layers[static_cast<size_t>(layer_)];
  kernels::GroupedExpertFfnArgs args;
  for (size_t slot = 0; slot < slot_count_.size(); ++slot) {
    if (slot_count_[slot] == 0) continue;
    const std::optional<FfnTensors>& tensors = layer.slots[slot];
    if (!tensors) {
      return Internal("slot " + std::to_string(slot) + " was assigned work and holds no expert");
    }
    kernels::ActiveExpert& expert = active[args.num_experts++];
    expert.gate = tensors->gate.data;
    expert.up = tensors->up.data;
    expert.down = tensors->down.data;
    expert.gate_scales = tensors->gate.scales;
    expert.up_scales = tensors->up.scales;
    expert.down_scales = tensors->down.scales;
    expert.first = slot_first_[slot];
    expert.count = slot_count_[slot];
    args.num_contributions += expert.count;
    args.weight_dtype = tensors->gate.dtype;
  }
  activated_ = static_cast<int>(args.num_experts);
  if (activated_ == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(
      work_.Push(0, contributions_at_ + static_cast<size_t>(args.num_contributions) *
                                            sizeof(kernels::Contribution)));
  args.experts = work_.device_at<kernels::ActiveExpert>(0);
  args.contributions = work_.device_at<kernels::Contribution>(contributions_at_);
  args.hidden = model_.hidden;
  args.intermediate = model_.moe.intermediate;
  args.row_dtype = wire_;
  args.y_dtype = wire_;
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  JANUS_RETURN_IF_ERROR(kernels::GroupedExpertFfn(stream_, args));
  if (is_host_) return OkStatus();
  for (const Sender& sender : senders_) {
    if (!sender.gated) continue;
    JANUS_RETURN_IF_ERROR(context_.CopyOut(sender.reply,
                                           replies_.data() + sender.first_reply * row_bytes_,
                                           static_cast<size_t>(sender.contributions) * row_bytes_));
  }
  return context_.Wait();
}

}  // namespace janus::dataplane
