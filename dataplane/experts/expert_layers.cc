#include "dataplane/experts/expert_layers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "dataplane/experts/device_expert_layers.h"
#include "dataplane/experts/host_expert_layers.h"

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
                           const Topology& topology, Rank rank, const ExpertLayersOptions& options)
    : model_(model),
      weights_(weights),
      rank_(rank.value),
      scheduling_(options.scheduling),
      crossover_rows_(options.crossover_rows),
      wire_(WireType(model)),
      format_{model.hidden, wire_, options.compression},
      sums_(options.sums),
      row_bytes_(format_.exact_bytes()),
      term_bytes_(sums_.on() ? static_cast<size_t>(model.hidden) * sizeof(float) : row_bytes_),
      max_rows_(static_cast<size_t>(topology.max_rows_per_round)),
      sender_stride_(max_rows_ * static_cast<size_t>(model.moe.top_k)),
      slots_(static_cast<size_t>(topology.experts[static_cast<size_t>(rank_)].slots)),
      placements_(PlacementsOf(model, topology.placement)),
      senders_(static_cast<size_t>(topology.m())),
      ids_(senders_.size() * sender_stride_),
      replicas_(ids_.size()),
      held_(placements_.size()),
      slot_count_(slots_),
      aebs_(model.moe.experts, topology.n()),
      split_(model.moe.experts, topology.n(), topology.placement.total_slots()),
      slot_first_(slots_),
      next_(slots_) {
  for (size_t layer = 0; layer < placements_.size(); ++layer) {
    for (const Replica& replica : placements_[layer].replicas) {
      if (replica.instance == rank_) held_[layer].push_back(static_cast<size_t>(replica.slot));
    }
  }
  held_rows_.reserve(slots_);
  JANUS_CHECK(!format_.is_packed() || !options.device_replies, rank_);
  if (!sums_.on()) return;
  JANUS_CHECK(!options.device_replies, rank_);
  const Status valid = Validate(sums_, model.moe_layers(), model.moe.top_k);
  JANUS_CHECK(valid.ok(), valid.ToString());
  ends_.resize(senders_.size() * max_rows_);
}

void ExpertLayers::Begin(int layer, uint64_t draw) {
  layer_ = layer;
  draw_ = draw;
  rows_ = 0;
  std::fill(senders_.begin(), senders_.end(), Sender());
}

Status ExpertLayers::Gate(Rank from, const ArrivedRows& rows, std::byte* replies) {
  const auto at = static_cast<size_t>(from.value);
  Sender& sender = senders_[at] = Sender();
  sender.gated = true;
  sender.rows = rows.rows;
  sender.came = rows.choices ? rows.came : rows.count;
  sender.choices = rows.choices;
  sender.on_device = rows.on_device;
  sender.replies = replies;
  sender.count = rows.count;
  rows_ += rows.count;
  return GateRows(at);
}

Result<Regime> ExpertLayers::Schedule() {
  const size_t total = routed().size();
  const Regime regime =
      ScheduleRound(scheduling_, crossover_rows_, placements_[static_cast<size_t>(layer_)],
                    std::span(ids_).first(total), model_.moe.top_k, aebs_, split_,
                    std::span(replicas_).first(total), draw_);
  std::fill(slot_count_.begin(), slot_count_.end(), 0);
  size_t at = 0;
  for (Sender& sender : senders_) {
    if (!sender.gated) continue;
    const size_t end =
        at + static_cast<size_t>(sender.count) * static_cast<size_t>(model_.moe.top_k);
    for (; at < end; ++at) {
      if (replicas_[at].instance != rank_) continue;
      ++slot_count_[replicas_[at].slot];
      ++sender.contributions;
    }
  }
  activated_ = 0;
  int first = 0;
  for (size_t slot = 0; slot < slots_; ++slot) {
    slot_first_[slot] = next_[slot] = first;
    first += slot_count_[slot];
    if (slot_count_[slot] == 0) continue;
    ++activated_;
    if (!layer_weights().slots[slot]) {
      return Internal("slot " + std::to_string(slot) + " was assigned work and holds no expert");
    }
  }
  return regime;
}

std::span<const int> ExpertLayers::RowsOfHeldSlots() {
  held_rows_.clear();
  for (const size_t slot : held_[static_cast<size_t>(layer_)])
    held_rows_.push_back(slot_count_[slot]);
  return held_rows_;
}

void ExpertLayers::LayReplies(Begun begin, FunctionRef<void(const Piece&)> each) {
  const auto k = static_cast<size_t>(model_.moe.top_k);
  size_t at = 0;
  for (size_t a = 0; a < senders_.size(); ++a) {
    Sender& sender = senders_[a];
    if (!sender.gated) continue;
    const ExpertExchange::Outgoing out = begin(Rank{static_cast<int32_t>(a)}, sender.contributions);
    sender.reply = out.rows;
    size_t written = 0;
    size_t row_before = SIZE_MAX;
    for (size_t i = 0; i < static_cast<size_t>(sender.count) * k; ++i, ++at) {
      const Replica replica = replicas_[at];
      if (replica.instance != rank_) continue;
      out.refs[written] = {static_cast<uint16_t>(i / k), static_cast<uint16_t>(i % k),
                           static_cast<uint16_t>(ids_[at] % ContributionRef::kMostExperts)};
      each({a, i, at, written, replica.slot});
      ++written;
      if (!sums_.on()) continue;
      if (i / k != std::exchange(row_before, i / k)) ++sender.sums;
      ends_[a * max_rows_ + static_cast<size_t>(sender.sums) - 1] = static_cast<int32_t>(written);
    }
  }
}

kernels::AddTermsArgs ExpertLayers::AddTermsOf(const Sender& sender) const {
  kernels::AddTermsArgs args;
  args.bits = sums_.bits;
  args.exponent = sums_.exponent(layer_);
  args.limit = FixedLimit(sums_.bits, model_.moe.top_k);
  args.rows = sender.sums;
  args.hidden = model_.hidden;
  return args;
}

size_t ExpertLayers::ListedAt(const Piece& piece) {
  return static_cast<size_t>(next_[static_cast<size_t>(piece.slot)]++);
}

int ExpertLayers::ListActive(kernels::ActiveExpert* active) const {
  int listed = 0;
  for (size_t slot = 0; slot < slots_; ++slot) {
    if (slot_count_[slot] == 0) continue;
    kernels::ActiveExpert& expert = active[listed++];
    expert = WeightsOf(*layer_weights().slots[slot]);
    expert.first = slot_first_[slot];
    expert.count = slot_count_[slot];
  }
  return listed;
}

kernels::GroupedExpertFfnArgs ExpertLayers::FfnOf(int layer) const {
  kernels::GroupedExpertFfnArgs args;
  for (const std::optional<FfnTensors>& slot : weights_.layers[static_cast<size_t>(layer)].slots) {
    if (slot) args.weight_dtype = slot->gate.dtype;  // a layer's experts have one
  }
  args.hidden = model_.hidden;
  args.intermediate = model_.moe.intermediate;
  args.weighs_inputs = model_.moe.weighs_inputs;
  args.has_bias = model_.moe.has_expert_bias;
  args.swiglu_limit = model_.moe.swiglu_limit;
  args.swiglu_alpha = model_.moe.swiglu_alpha;
  args.row_dtype = wire_;
  args.y_dtype = sums_.on() ? DType::kFloat32 : wire_;
  return args;
}

kernels::ActiveExpert WeightsOf(const FfnTensors& tensors) {
  kernels::ActiveExpert expert;
  expert.gate = tensors.gate.data;
  expert.up = tensors.up.data;
  expert.down = tensors.down.data;
  expert.gate_scales = tensors.gate.scales;
  expert.up_scales = tensors.up.scales;
  expert.down_scales = tensors.down.scales;
  expert.gate_bias = static_cast<const float*>(tensors.gate_bias.data);
  expert.up_bias = static_cast<const float*>(tensors.up_bias.data);
  expert.down_bias = static_cast<const float*>(tensors.down_bias.data);
  return expert;
}

std::unique_ptr<ExpertLayers> MakeExpertLayers(const ModelDescription& model,
                                               const ExpertWeights& weights,
                                               const Topology& topology, Rank rank,
                                               const ExpertLayersOptions& options,
                                               const kernels::Place& place) {
  if (place.context->is_host()) {
    return std::make_unique<HostExpertLayers>(model, weights, topology, rank, options, place);
  }
  return std::make_unique<DeviceExpertLayers>(model, weights, topology, rank, options, place);
}

}  // namespace janus::dataplane
