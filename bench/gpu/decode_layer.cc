#include "bench/gpu/decode_layer.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "common/philox.h"
#include "dataplane/attention/projection.h"
#include "dataplane/experts/expert_layers.h"

namespace janus::bench {

using dataplane::AttentionLayerWeights;
using dataplane::FfnTensors;

DecodeLayer::DecodeLayer(kernels::Context& context, const dataplane::HeldModel& held,
                         const Topology& topology, Rank rank, int rows, int context_tokens)
    : context_(context),
      held_(held),
      model_(held.model),
      rank_(rank.value),
      slots_(topology.experts[static_cast<size_t>(rank_)].slots),
      rows_(rows),
      wire_(WireType(model_)),
      row_bytes_(static_cast<size_t>(model_.hidden) * static_cast<size_t>(SizeOf(wire_))),
      share_(held.Shares(topology.placement)[static_cast<size_t>(rank_)]) {
  JANUS_CHECK(model_.dense_layers.empty(), model_.dense_layers.size());
  const int pages = dataplane::KvPagePool::PagesFor(context_tokens);
  dataplane::KvPagePoolOptions cache;
  cache.layers = model_.layers;
  cache.dtype = WireType(model_);
  cache.page_bytes = dataplane::CachePageBytes(model_, cache.dtype);
  cache.bytes = cache.page_bytes * model_.layers * rows * pages;
  cache.context = &context;
  cache_ = *dataplane::KvPagePool::Create(cache);
  attention_ = dataplane::MakeSelfAttention(model_, held.attention, *cache_, context.place(), rows);
  FillCache();
  PlaceRows(context_tokens);

  const auto t = static_cast<size_t>(rows);
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto pairs = t * static_cast<size_t>(model_.moe.top_k);
  residual_ = context.AllocateOrNote(t * hidden * sizeof(float));
  was_set_ = context.AllocateOrNote(residual_.size());
  normed_ = context.AllocateOrNote(t * row_bytes_);
  attended_ =
      context.AllocateOrNote(t * static_cast<size_t>(dataplane::AttendedWidth(model_.attention)) *
                             static_cast<size_t>(SizeOf(wire_)));
  to_experts_ = context.AllocateOrNote(t * row_bytes_);
  if (model_.moe.shared_intermediate > 0) {
    local_ = context.AllocateOrNote(t * hidden * sizeof(float));
    std::vector<kernels::Contribution> local(t);
    std::memset(static_cast<void*>(local.data()), 0, t * sizeof(local[0]));
    for (size_t i = 0; i < t; ++i) {
      local[i].x = to_experts_.data() + i * row_bytes_;
      local[i].y = local_.as<float>() + i * hidden;
      local[i].weight = 1.0f;
    }
    local_rows_ = CopyOf(local);
    std::vector<kernels::ActiveExpert> experts;
    for (const AttentionLayerWeights& w : held.attention.layers) {
      experts.push_back({w.ffn.gate.data, w.ffn.up.data, w.ffn.down.data, 0, rows});
    }
    local_experts_ = CopyOf(experts);
    const auto needs =
        kernels::GroupedExpertFfnWorkspace::For(rows, model_.moe.shared_intermediate, wire_);
    local_workspace_ = context.AllocateOrNote(static_cast<size_t>(needs.bytes));
  }
  replies_ = context.AllocateOrNote(pairs * row_bytes_);
  std::vector<const void*> pointers;
  for (size_t i = 0; i < t; ++i) pointers.push_back(to_experts_.data() + i * row_bytes_);
  row_pointers_ = CopyOf(pointers);
  pointers.clear();
  for (size_t i = 0; i < pairs; ++i) pointers.push_back(replies_.data() + i * row_bytes_);
  reply_pointers_ = CopyOf(pointers);
  first_rows_ = CopyOf(std::vector<int32_t>{0});
  PlaceExperts(topology);
}

// Fills the cache with the embedding's values, repeated.
void DecodeLayer::FillCache() {
  const auto table = static_cast<size_t>(model_.vocab) * static_cast<size_t>(model_.hidden) *
                     static_cast<size_t>(SizeOf(wire_));
  const size_t all = static_cast<size_t>(model_.layers) * cache_->page_bytes() *
                     static_cast<size_t>(cache_->num_pages() + 1);
  for (size_t at = 0; at < all; at += table) {
    context_.NoteFailure(context_.CopyWithin(cache_->Layer(0) + at, held_.attention.embedding.data,
                                             std::min(table, all - at)));
  }
}

void DecodeLayer::PlaceRows(int context_tokens) {
  const auto each = static_cast<size_t>(dataplane::KvPagePool::PagesFor(context_tokens));
  const auto t = static_cast<size_t>(rows_);
  tables_ = CopyOf(DealPages(rows_, static_cast<int>(each)));
  host_rows_.resize(t);
  std::memset(static_cast<void*>(host_rows_.data()), 0, t * sizeof(host_rows_[0]));
  for (size_t i = 0; i < t; ++i) {
    host_rows_[i].block_table = tables_.as<int32_t>() + i * each;
    host_rows_[i].position = context_tokens - 1;
  }
  kv_rows_ = CopyOf(host_rows_);
  positions_ = CopyOf(std::vector<int32_t>(t, context_tokens - 1));
  classes_.assign(t, dataplane::PositionClass::kGenerated);
}

void DecodeLayer::PlaceExperts(const Topology& topology) {
  const auto t = static_cast<size_t>(rows_);
  const auto pairs = t * static_cast<size_t>(model_.moe.top_k);
  const int experts = model_.moe.experts;
  router_logits_ = context_.AllocateOrNote(t * static_cast<size_t>(experts) * sizeof(float));
  ids_ = context_.AllocateOrNote(pairs * sizeof(uint16_t));
  weights_ = context_.AllocateOrNote(pairs * sizeof(float));
  gate_workspace_ = context_.AllocateOrNote(
      static_cast<size_t>(kernels::GateTopKWorkspaceBytes(rows_, model_.hidden, experts)));
  std::vector<kernels::ActiveExpert> tensors;
  for (int layer = 0; layer < model_.moe_layers(); ++layer) {
    placements_.push_back(LayerPlacement::Of(topology.placement, layer, experts));
    const LayerPlacement& placement = placements_.back();
    kernels::PlacementView view = kernels::PlacementView::Of(placement);
    const auto put = [&]<class T>(const std::vector<T>& values, const T*& to) {
      placement_tables_.push_back(CopyOf(values));
      to = placement_tables_.back().template as<T>();
    };
    put(placement.first, view.first);
    put(placement.replicas, view.replicas);
    put(placement.hosts, view.hosts);
    put(placement.by_replicas, view.by_replicas);
    views_.push_back(view);
    for (const std::optional<FfnTensors>& slot : share_.layers[static_cast<size_t>(layer)].slots) {
      tensors.push_back(slot ? dataplane::WeightsOf(*slot) : kernels::ActiveExpert{});
    }
  }
  tensors_ = CopyOf(tensors);
  scratch_ = context_.AllocateOrNote(static_cast<size_t>(
      kernels::RouteRoundScratchBytes(rows_, model_.moe.top_k, experts, topology.n())));
  const auto most = static_cast<size_t>(kernels::RoutedExperts(rows_, model_.moe.top_k, slots_));
  active_ = context_.AllocateOrNote(most * sizeof(kernels::ActiveExpert));
  contributions_ = context_.AllocateOrNote(pairs * sizeof(kernels::Contribution));
  const auto needs = kernels::GroupedExpertFfnWorkspace::For(static_cast<int64_t>(pairs),
                                                             model_.moe.intermediate, wire_);
  workspace_ = context_.AllocateOrNote(static_cast<size_t>(needs.bytes));
}

Status DecodeLayer::Start(const kernels::Stream& on, int layer) {
  JANUS_RETURN_IF_ERROR(Attend(on, layer));
  JANUS_RETURN_IF_ERROR(Shared(on, layer));
  JANUS_RETURN_IF_ERROR(Contribute(on, layer));
  return Combine(on);
}

Status DecodeLayer::Contribute(const kernels::Stream& on, int layer) {
  JANUS_RETURN_IF_ERROR(Route(on, layer));
  return Experts(on, layer);
}

Status DecodeLayer::Attend(const kernels::Stream& on, int layer) {
  const AttentionLayerWeights& w = held_.attention.layers[static_cast<size_t>(layer)];
  dataplane::Norming norm{.x = residual_.as<float>(),
                          .y = normed_.data(),
                          .y_dtype = wire_,
                          .count = rows_,
                          .size = model_.hidden,
                          .epsilon = model_.norm_epsilon};
  JANUS_RETURN_IF_ERROR(Norm(on, w.input_norm, norm));
  const dataplane::AttentionRows rows{.rows = kv_rows_.as<kernels::KvRow>(),
                                      .positions = positions_.as<int32_t>(),
                                      .classes = classes_.data(),
                                      .on_host = host_rows_.data(),
                                      .count = rows_};
  JANUS_RETURN_IF_ERROR(attention_->Attend(on, layer, rows, normed_.data(), attended_.data()));
  JANUS_RETURN_IF_ERROR(Project(on, w.o,
                                {.x = attended_.data(),
                                 .x_dtype = wire_,
                                 .count = rows_,
                                 .inputs = dataplane::AttendedWidth(model_.attention),
                                 .outputs = model_.hidden,
                                 .y = residual_.as<float>(),
                                 .accumulate = true}));
  norm.y = to_experts_.data();
  return Norm(on, w.post_norm, norm);
}

Status DecodeLayer::Shared(const kernels::Stream& on, int layer) {
  if (model_.moe.shared_intermediate == 0) return OkStatus();
  kernels::GroupedExpertFfnArgs args;
  args.experts = local_experts_.as<kernels::ActiveExpert>() + layer;
  args.contributions = local_rows_.as<kernels::Contribution>();
  args.num_experts = 1;
  args.num_contributions = rows_;
  args.hidden = model_.hidden;
  args.intermediate = model_.moe.shared_intermediate;
  args.weight_dtype = held_.attention.layers[static_cast<size_t>(layer)].ffn.gate.dtype;
  args.row_dtype = wire_;
  args.workspace = local_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(local_workspace_.size());
  return kernels::GroupedExpertFfn(on, args);
}

Status DecodeLayer::Route(const kernels::Stream& on, int layer) {
  const dataplane::ExpertLayerWeights& w = held_.experts.layers[static_cast<size_t>(layer)];
  kernels::RouteRoundArgs args;
  kernels::GateTopKArgs& gate = args.gate;
  gate.x_rows = row_pointers_.as<const void* const>();
  gate.x_dtype = wire_;
  gate.weight = w.gate.data;
  gate.weight_dtype = w.gate.dtype;
  gate.logits = router_logits_.as<float>();
  gate.ids = ids_.as<uint16_t>();
  gate.weights = weights_.as<float>();
  gate.rows = rows_;
  gate.hidden = model_.hidden;
  gate.experts = model_.moe.experts;
  gate.top_k = model_.moe.top_k;
  gate.score = model_.moe.score;
  gate.bias = static_cast<const float*>(w.gate_bias.data);
  gate.renormalize = model_.moe.renormalize;
  gate.weight_scale = model_.moe.weight_scale;
  gate.groups = model_.moe.groups;
  gate.top_groups = model_.moe.top_groups;
  gate.workspace = gate_workspace_.data();
  gate.workspace_bytes = static_cast<int64_t>(gate_workspace_.size());
  args.placement = views_[static_cast<size_t>(layer)];
  args.rank = rank_;
  args.slots = slots_;
  args.tensors = tensors_.as<kernels::ActiveExpert>() + int64_t{layer} * slots_;
  args.first_rows = first_rows_.as<int32_t>();
  args.senders = 1;
  args.y = reply_pointers_.as<std::byte*>();
  args.y_row_bytes = static_cast<int64_t>(row_bytes_);
  args.active = active_.as<kernels::ActiveExpert>();
  args.contributions = contributions_.as<kernels::Contribution>();
  args.scratch = scratch_.data();
  args.scratch_bytes = static_cast<int64_t>(scratch_.size());
  return kernels::RouteRound(on, args);
}

Status DecodeLayer::Experts(const kernels::Stream& on, int layer) {
  kernels::GroupedExpertFfnArgs args;
  for (const std::optional<FfnTensors>& slot : share_.layers[static_cast<size_t>(layer)].slots) {
    if (slot) args.weight_dtype = slot->gate.dtype;
  }
  args.experts = active_.as<kernels::ActiveExpert>();
  args.contributions = contributions_.as<kernels::Contribution>();
  args.num_experts = static_cast<int>(kernels::RoutedExperts(rows_, model_.moe.top_k, slots_));
  args.num_contributions = int64_t{rows_} * model_.moe.top_k;
  const int instances = placements_[static_cast<size_t>(layer)].instances;
  args.likely_contributions = (args.num_contributions + instances - 1) / instances;
  args.hidden = model_.hidden;
  args.intermediate = model_.moe.intermediate;
  args.row_dtype = wire_;
  args.y_dtype = wire_;
  args.workspace = workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(workspace_.size());
  return kernels::GroupedExpertFfn(on, args);
}

Status DecodeLayer::Combine(const kernels::Stream& on) {
  kernels::CombineSlotsArgs args;
  args.contributions = reply_pointers_.as<const void* const>();
  args.dtype = wire_;
  args.local = model_.moe.shared_intermediate > 0 ? local_.as<float>() : nullptr;
  args.residual = residual_.as<float>();
  args.y = residual_.as<float>();
  args.rows = rows_;
  args.hidden = model_.hidden;
  args.top_k = model_.moe.top_k;
  return kernels::CombineSlots(on, args);
}

template <class T>
Result<std::vector<T>> DecodeLayer::CopyOut(const void* from, size_t count) {
  std::vector<T> to(count);
  JANUS_RETURN_IF_ERROR(context_.CopyOut(to.data(), from, count * sizeof(T)));
  JANUS_RETURN_IF_ERROR(context_.Wait());
  return to;
}

Status DecodeLayer::SetResidual(const std::vector<float>& from) {
  JANUS_CHECK(from.size() * sizeof(float) == residual_.size(), from.size());
  JANUS_RETURN_IF_ERROR(context_.CopyIn(was_set_.data(), from.data(), was_set_.size()));
  JANUS_RETURN_IF_ERROR(ResetResidual());
  return context_.Wait();
}

Status DecodeLayer::ResetResidual() {
  return context_.CopyWithin(residual_.data(), was_set_.data(), residual_.size());
}

Result<std::vector<float>> DecodeLayer::residual() {
  return CopyOut<float>(residual_.data(), residual_.size() / sizeof(float));
}

Result<std::vector<std::byte>> DecodeLayer::sent() {
  return CopyOut<std::byte>(to_experts_.data(), to_experts_.size());
}

Result<std::vector<std::byte>> DecodeLayer::contributions(int count) {
  return CopyOut<std::byte>(replies_.data(), static_cast<size_t>(count) * row_bytes_);
}

Result<DecodeLayer::Load> DecodeLayer::load() {
  JANUS_ASSIGN_OR_RETURN(const std::vector<kernels::ActiveExpert> active,
                         CopyOut<kernels::ActiveExpert>(
                             active_.data(), active_.size() / sizeof(kernels::ActiveExpert)));
  Load load;
  for (const kernels::ActiveExpert& expert : active) {
    load.experts += expert.count > 0 ? 1 : 0;
    load.rows += static_cast<int>(expert.count);
  }
  return load;
}

std::vector<float> RandomResidual(int rows, int hidden, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(hidden));
  for (size_t i = 0; i < values.size(); i += 4) {
    const auto words =
        Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {seed, 1});
    for (size_t j = i; j < std::min(i + 4, values.size()); ++j) {
      values[j] = static_cast<float>(words[j - i] >> 8) * 0x1p-23f - 1.0f;
    }
  }
  return values;
}

std::vector<int32_t> DealPages(int sequences, int pages_each) {
  std::vector<int32_t> tables;
  for (int s = 0; s < sequences; ++s) {
    for (int page = 0; page < pages_each; ++page) tables.push_back(page * sequences + s);
  }
  return tables;
}

namespace {

// Of a bfloat16 weight or element of a row.
constexpr int64_t kBytes = 2;
constexpr int64_t kPointer = 8;
// What a row needs to write to the cache: the address of its page table, its position and a page
// number.
constexpr int64_t kWhereToWrite = kPointer + 8 + 4;

OperationLimit Projected(const char* name, int64_t rows, int64_t outputs, int64_t inputs,
                         bool accumulates = false) {
  return {name,
          outputs * inputs * kBytes + rows * inputs * kBytes +
              rows * outputs * 4 * (accumulates ? 2 : 1),
          2 * rows * outputs * inputs};
}
OperationLimit Normed(const char* name, int64_t rows, int64_t hidden, int64_t y_bytes) {
  return {name, rows * hidden * (4 + y_bytes) + hidden * kBytes, 0};
}
// Reads a position per row and a frequency per pair.
OperationLimit Rotated(int64_t rows, int64_t heads, int64_t rotary) {
  return {"rope", rows * heads * rotary * 8 + 4 * (rows + rotary / 2), 0};
}
// One matrix per head, fp32 rows.
OperationLimit ByHeads(const char* name, int64_t rows, int64_t heads, int64_t outputs,
                       int64_t inputs, int64_t y_bytes) {
  return {name, heads * (outputs * inputs * kBytes + rows * (inputs * 4 + outputs * y_bytes)),
          2 * rows * heads * outputs * inputs};
}
OperationLimit Ffn(const char* name, int64_t experts, int64_t rows, int64_t hidden,
                   int64_t intermediate, int64_t y_bytes) {
  return {name,
          experts * 3 * hidden * intermediate * kBytes +
              rows * (hidden * (kBytes + y_bytes) + 2 * intermediate * kBytes),
          6 * rows * hidden * intermediate};
}

void AddLatent(const ModelDescription& model, int64_t t, int64_t keys,
               std::vector<OperationLimit>& limits) {
  const AttentionDescription& a = model.attention;
  const LatentDescription& l = *a.latent;
  const int64_t entry = int64_t{l.rank} + a.rope.rotary_dim;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  if (l.query_rank > 0) {
    limits.push_back(Projected("q_a", t, l.query_rank, model.hidden));
    limits.push_back(Normed("query norm", t, l.query_rank, kBytes));
  }
  limits.push_back(Projected("q", t, q, l.query_rank > 0 ? l.query_rank : model.hidden));
  limits.push_back(Rotated(t, a.heads + 1, a.rope.rotary_dim));
  limits.push_back(Projected("kv_a", t, entry, model.hidden));
  limits.push_back(Normed("latent norm", t, l.rank, 4));
  limits.push_back({"latent write", t * (entry * (4 + kBytes) + kWhereToWrite), 0});
  limits.push_back(ByHeads("into latent space", t, a.heads, l.rank, a.nope_dim(), 4));
  limits.push_back({"attention", keys * entry * kBytes + t * a.heads * (entry + l.rank) * 4,
                    2 * keys * a.heads * (2 * int64_t{l.rank} + a.rope.rotary_dim)});
  limits.push_back(ByHeads("out of latent space", t, a.heads, l.value_dim, l.rank, kBytes));
}

void AddGrouped(const ModelDescription& model, int64_t t, int64_t keys,
                std::vector<OperationLimit>& limits) {
  const AttentionDescription& a = model.attention;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  const int64_t kv = int64_t{a.kv_heads} * a.head_dim;
  limits.push_back(Projected("q", t, q, model.hidden));
  limits.push_back(Projected("k", t, kv, model.hidden));
  limits.push_back(Projected("v", t, kv, model.hidden));
  limits.push_back(Rotated(t, a.heads + a.kv_heads, a.rope.rotary_dim));
  limits.push_back({"write of keys and values", t * (2 * kv * (4 + kBytes) + kWhereToWrite), 0});
  limits.push_back({"attention", keys * 2 * kv * kBytes + t * q * (4 + kBytes), 4 * keys * q});
}

}  // namespace

std::vector<OperationLimit> LimitsOf(const ModelDescription& model, int rows, int context_tokens,
                                     const DecodeLayer::Load& load) {
  const int64_t t = rows;
  const int64_t h = model.hidden;
  const int64_t keys = t * context_tokens;
  std::vector<OperationLimit> limits = {Normed("input norm", t, h, kBytes)};
  if (model.attention.latent) {
    AddLatent(model, t, keys, limits);
  } else {
    AddGrouped(model, t, keys, limits);
  }
  limits.push_back(Projected("o", t, h, dataplane::AttendedWidth(model.attention), true));
  limits.push_back(Normed("post norm", t, h, kBytes));
  const bool shared = model.moe.shared_intermediate > 0;
  if (shared) limits.push_back(Ffn("shared experts", 1, t, h, model.moe.shared_intermediate, 4));
  limits.push_back(
      {"gate and AEBS", (model.moe.experts + t) * h * kBytes, 2 * t * h * model.moe.experts});
  limits.push_back(Ffn("experts", load.experts, load.rows, h, model.moe.intermediate, kBytes));
  limits.push_back(
      {"combine",
       t * h * (kBytes * model.moe.top_k + 8 + (shared ? 4 : 0)) + t * model.moe.top_k * kPointer,
       0});
  return limits;
}

double SumOfLimits(const std::vector<OperationLimit>& limits, double bytes_per_us,
                   double flops_per_us) {
  double sum = 0.0;
  for (const OperationLimit& limit : limits) {
    sum += std::max(static_cast<double>(limit.bytes) / bytes_per_us,
                    static_cast<double>(limit.flops) / flops_per_us);
  }
  return sum;
}

}  // namespace janus::bench
