#include "dataplane/attention/layers.h"

#include <algorithm>
#include <cstring>

#include "dataplane/attention/micro_batch.h"
#include "dataplane/attention/projection.h"

namespace janus::dataplane {
namespace {

// The widest FFN on this side.
int LocalIntermediate(const ModelDescription& model) {
  return std::max(model.dense_layers.empty() ? 0 : model.dense_intermediate,
                  model.moe.shared_intermediate);
}

}  // namespace

AttentionLayers::StepLayout AttentionLayers::StepLayout::For(const ModelDescription& model,
                                                             const KvCache& cache, const Room& room,
                                                             bool is_host) {
  const auto rows = static_cast<size_t>(room.max_rows);
  StepLayout l;
  l.rows = 0;  // what needs the widest alignment comes first
  l.experts = l.rows + rows * sizeof(kernels::KvRow);
  const bool has_local = !is_host && LocalIntermediate(model) > 0;
  const int parts = has_local ? model.layers * room.micro_batches : 0;
  l.tokens = l.experts + static_cast<size_t>(parts) * sizeof(kernels::ActiveExpert);
  l.positions = l.tokens + rows * sizeof(int32_t);
  l.tables = l.positions + rows * sizeof(int32_t);
  // A page is one sequence's.
  l.bytes = l.tables + (is_host ? 0 : static_cast<size_t>(cache.num_pages()) * sizeof(int32_t));
  return l;
}

AttentionLayers::AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                                 const KvCache& cache, const kernels::Place& place,
                                 const Room& room)
    : model_(model),
      weights_(weights),
      stream_(place.stream),
      context_(*place.context),
      is_host_(context_.is_host()),
      wire_(WireType(model)),
      row_bytes_(static_cast<size_t>(model.hidden) * static_cast<size_t>(SizeOf(wire_))),
      room_(room),
      layout_(StepLayout::For(model, cache, room, is_host_)),
      attention_(MakeSelfAttention(model, weights, cache, place, room.max_rows)),
      step_(context_, layout_.bytes) {
  const auto rows = static_cast<size_t>(room.max_rows);
  const auto hidden = static_cast<size_t>(model.hidden);
  const auto wire_bytes = static_cast<size_t>(SizeOf(wire_));
  classes_.resize(rows);
  positions_.resize(rows);
  sequences_.resize(rows);
  residual_ = context_.TakeOrNote(rows * hidden * sizeof(float));
  normed_ = context_.TakeOrNote(rows * row_bytes_);
  attended_ =
      context_.TakeOrNote(rows * static_cast<size_t>(AttendedWidth(model.attention)) * wire_bytes);
  picked_ = context_.TakeOrNote(rows * hidden * sizeof(float));
  if (const int intermediate = LocalIntermediate(model); intermediate > 0) {
    local_ = context_.TakeOrNote(rows * hidden * sizeof(float));
    if (is_host_) local_rows_.resize(rows);
    const auto workspace =
        kernels::GroupedExpertFfnWorkspace::For(room.max_rows, intermediate, wire_);
    ffn_workspace_ = context_.TakeOrNote(static_cast<size_t>(workspace.bytes));
  }
  if (!is_host_) PrepareDevice();
}

// What only a GPU needs: a place for rows that are on their way, and tables of where that is.
void AttentionLayers::PrepareDevice() {
  const auto rows = static_cast<size_t>(room_.max_rows);
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto logits =
      static_cast<size_t>(room_.most_logits) * static_cast<size_t>(model_.vocab) * sizeof(float);
  logits_ = context_.TakeOrNote(logits);
  if (room_.logits_on_host) host_logits_ = context_.TakePinnedOrNote(logits);
  to_experts_ = context_.TakeOrNote(rows * row_bytes_);
  const size_t slots = rows * static_cast<size_t>(model_.moe.top_k);
  arrived_ = kernels::Staging(context_, slots * row_bytes_);
  std::vector<const void*> arrived(slots);
  for (size_t i = 0; i < slots; ++i) arrived[i] = arrived_.device() + i * row_bytes_;
  arrived_pointers_ = context_.TakeCopyOrNote(arrived.data(), slots * sizeof(arrived[0]));
  if (local_.size() == 0) return;
  std::vector<kernels::Contribution> local(rows);
  // What lies between the fields goes up, too.
  std::memset(static_cast<void*>(local.data()), 0, rows * sizeof(local[0]));
  for (size_t i = 0; i < rows; ++i) {
    local[i].x = to_experts_.data() + i * row_bytes_;
    local[i].y = local_.as<float>() + i * hidden;
    local[i].weight = 1.0f;
  }
  device_local_rows_ = context_.TakeCopyOrNote(local.data(), rows * sizeof(local[0]));
}

Status AttentionLayers::NormRows(const float* x, const Tensor& weight, void* y, int count) const {
  return Norm(stream_, weight,
              {.x = x,
               .y = y,
               .y_dtype = wire_,
               .count = count,
               .size = model_.hidden,
               .epsilon = model_.norm_epsilon});
}

Status AttentionLayers::Begin(const Batch& batch) {
  batch_rows_ = static_cast<int>(batch.rows.size());
  JANUS_CHECK(batch_rows_ <= room_.max_rows, batch_rows_, room_.max_rows);
  if (batch_rows_ == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(step_.Reopen());
  auto* const tokens = step_.host_at<int32_t>(layout_.tokens);
  auto* const positions = step_.host_at<int32_t>(layout_.positions);
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    tokens[i] = row.token;
    positions[i] = positions_[i] = row.position;
    classes_[i] = row.position_class;
    const bool begins = i > 0 && row.sequence != batch.rows[i - 1].sequence;
    sequences_[i] = i == 0 ? 0 : sequences_[i - 1] + (begins ? 1 : 0);
  }
  const size_t used = layout_.tables + PlaceTables(batch) * sizeof(int32_t);
  if (!is_host_) PlaceLocalExperts();
  JANUS_RETURN_IF_ERROR(step_.Push(0, used));
  kernels::EmbedArgs args;
  args.tokens = step_.device_at<int32_t>(layout_.tokens);
  args.table = weights_.embedding.data;
  args.table_dtype = weights_.embedding.dtype;
  args.y = residual_.as<float>();
  args.rows = batch_rows_;
  args.vocab = model_.vocab;
  args.hidden = model_.hidden;
  return kernels::Embed(stream_, args);
}

// Where the rows' sequences have their pages: on the host where those keep it, on a GPU copied,
// once for the rows of a sequence, which are neighbours. Returns how many page numbers were copied.
size_t AttentionLayers::PlaceTables(const Batch& batch) {
  auto* const rows = step_.host_at<kernels::KvRow>(layout_.rows);
  auto* const tables = step_.host_at<int32_t>(layout_.tables);
  const auto* const device_tables = step_.device_at<int32_t>(layout_.tables);
  const Sequence* before = nullptr;
  size_t first = 0, end = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    const std::vector<int32_t>& pages = row.sequence->pages;
    rows[i].position = row.position;
    if (is_host_) {
      rows[i].block_table = pages.data();
      continue;
    }
    if (row.sequence != before) {
      first = end;
      end += pages.size();
      JANUS_CHECK(layout_.tables + end * sizeof(int32_t) <= layout_.bytes, end);
      std::copy(pages.begin(), pages.end(), tables + first);
      before = row.sequence;
    }
    rows[i].block_table = device_tables + first;
  }
  return end;
}

// The FFN beside the routed experts, of each layer for each micro-batch: as one expert that has all
// rows.
void AttentionLayers::PlaceLocalExperts() {
  if (local_.size() == 0) return;
  auto* const experts = step_.host_at<kernels::ActiveExpert>(layout_.experts);
  for (int layer = 0; layer < model_.layers; ++layer) {
    const FfnTensors& ffn = weights_.layers[static_cast<size_t>(layer)].ffn;
    for (int i = 0; i < room_.micro_batches; ++i) {
      const Part part = MicroBatch(batch_rows_, i, room_.micro_batches);
      experts[layer * room_.micro_batches + i] = {ffn.gate.data, ffn.up.data, ffn.down.data,
                                                  part.first, part.rows};
    }
  }
}

int AttentionLayers::PartAt(int first, int count) const {
  for (int i = 0; i < room_.micro_batches; ++i) {
    const Part part = MicroBatch(batch_rows_, i, room_.micro_batches);
    if (part.first == first && part.rows == count) return i;
  }
  JANUS_CHECK(false, first, count);
  return 0;
}

Status AttentionLayers::Attend(int layer, int first, int count, std::byte* out) {
  if (count == 0) return OkStatus();
  if (is_host_) return AttendInto(layer, first, count, out);
  std::byte* const sent = to_experts_.data() + static_cast<size_t>(first) * row_bytes_;
  JANUS_RETURN_IF_ERROR(AttendInto(layer, first, count, sent));
  JANUS_RETURN_IF_ERROR(context_.CopyOut(out, sent, static_cast<size_t>(count) * row_bytes_));
  return context_.Wait();
}

Status AttentionLayers::AttendInto(int layer, int first, int count, std::byte* out) {
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  float* residual = residual_.as<float>() + int64_t{first} * model_.hidden;
  JANUS_RETURN_IF_ERROR(NormRows(residual, w.input_norm, normed_.data(), count));
  const AttentionRows rows{.rows = step_.device_at<kernels::KvRow>(layout_.rows) + first,
                           .positions = step_.device_at<int32_t>(layout_.positions) + first,
                           .classes = classes_.data() + first,
                           .host_positions = positions_.data() + first,
                           .sequences = sequences_.data() + first,
                           .count = count};
  JANUS_RETURN_IF_ERROR(attention_->Attend(layer, rows, normed_.data(), attended_.data()));
  JANUS_RETURN_IF_ERROR(Project(stream_, w.o,
                                {.x = attended_.data(),
                                 .x_dtype = wire_,
                                 .count = count,
                                 .inputs = AttendedWidth(model_.attention),
                                 .outputs = model_.hidden,
                                 .y = residual,
                                 .accumulate = true}));
  return NormRows(residual, w.post_norm, out, count);
}

Status AttentionLayers::Ffn(int layer, int intermediate, int first, int count,
                            const std::byte* rows) {
  const FfnTensors& ffn = weights_.layers[static_cast<size_t>(layer)].ffn;
  kernels::ActiveExpert all;
  kernels::GroupedExpertFfnArgs args;
  if (is_host_) {
    for (int i = 0; i < count; ++i) {
      local_rows_[static_cast<size_t>(i)] = {
          rows + static_cast<size_t>(i) * row_bytes_,
          local_.as<float>() + int64_t{first + i} * model_.hidden, 1.0f};
    }
    all = {ffn.gate.data, ffn.up.data, ffn.down.data, 0, count};
    args.experts = &all;
    args.contributions = local_rows_.data();
    args.num_contributions = count;
  } else {
    args.experts = step_.device_at<kernels::ActiveExpert>(layout_.experts) +
                   layer * room_.micro_batches + PartAt(first, count);
    args.contributions = device_local_rows_.as<kernels::Contribution>();
    args.num_contributions = first + count;  // the expert's begin at `first`
  }
  args.num_experts = 1;
  args.hidden = model_.hidden;
  args.intermediate = intermediate;
  args.weight_dtype = ffn.gate.dtype;
  args.row_dtype = wire_;
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  return kernels::GroupedExpertFfn(stream_, args);
}

Status AttentionLayers::SharedExperts(int layer, int first, int count, const std::byte* rows) {
  if (count == 0 || model_.moe.shared_intermediate == 0) return OkStatus();
  return Ffn(layer, model_.moe.shared_intermediate, first, count, rows);
}

Status AttentionLayers::Combine(int first, int count, std::span<const void* const> contributions,
                                int top_k, bool local) {
  const int64_t offset = int64_t{first} * model_.hidden;
  kernels::CombineSlotsArgs args;
  args.contributions = contributions.data();
  args.dtype = wire_;
  args.local = local ? local_.as<float>() + offset : nullptr;
  args.residual = residual_.as<float>() + offset;
  args.y = residual_.as<float>() + offset;
  args.rows = count;
  args.hidden = model_.hidden;
  args.top_k = top_k;
  return kernels::CombineSlots(stream_, args);
}

// To a GPU they go as one piece, which the host gathers from where the experts have put them.
Status AttentionLayers::AddExperts(int first, int count,
                                   std::span<const void* const> contributions) {
  if (count == 0) return OkStatus();
  const int top_k = model_.moe.top_k;
  const bool shared = model_.moe.shared_intermediate > 0;
  if (is_host_) return Combine(first, count, contributions, top_k, shared);
  JANUS_RETURN_IF_ERROR(arrived_.Reopen());
  const size_t begin = static_cast<size_t>(first) * static_cast<size_t>(top_k);
  const size_t slots = static_cast<size_t>(count) * static_cast<size_t>(top_k);
  for (size_t i = 0; i < slots; ++i) {
    std::memcpy(arrived_.host() + (begin + i) * row_bytes_, contributions[i], row_bytes_);
  }
  JANUS_RETURN_IF_ERROR(arrived_.Push(begin * row_bytes_, slots * row_bytes_));
  return Combine(first, count, {arrived_pointers_.as<const void* const>() + begin, slots}, top_k,
                 shared);
}

Status AttentionLayers::DenseLayer(int layer, int first, int count) {
  if (count == 0) return OkStatus();
  std::byte* const rows =
      is_host_ ? normed_.data() : to_experts_.data() + static_cast<size_t>(first) * row_bytes_;
  JANUS_RETURN_IF_ERROR(AttendInto(layer, first, count, rows));
  JANUS_RETURN_IF_ERROR(Ffn(layer, model_.dense_intermediate, first, count, rows));
  return Combine(first, count, {}, 0, true);
}

Result<std::span<const float>> AttentionLayers::Logits(std::span<const int32_t> rows) {
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto vocab = static_cast<size_t>(model_.vocab);
  // Neighbours in one piece.
  for (size_t i = 0, end = 0; i < rows.size(); i = end) {
    for (end = i + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
    JANUS_RETURN_IF_ERROR(
        context_.CopyWithin(picked_.as<float>() + i * hidden,
                            residual_.as<float>() + static_cast<size_t>(rows[i]) * hidden,
                            (end - i) * hidden * sizeof(float)));
  }
  const int count = static_cast<int>(rows.size());
  JANUS_RETURN_IF_ERROR(NormRows(picked_.as<float>(), weights_.final_norm, normed_.data(), count));
  const size_t bytes = rows.size() * vocab * sizeof(float);
  if (is_host_ && logits_.size() < bytes) {
    JANUS_ASSIGN_OR_RETURN(logits_, context_.Take(bytes));
  }
  JANUS_CHECK(bytes <= logits_.size(), rows.size(), room_.most_logits);
  JANUS_RETURN_IF_ERROR(Project(stream_, weights_.lm_head,
                                {.x = normed_.data(),
                                 .x_dtype = wire_,
                                 .count = count,
                                 .inputs = model_.hidden,
                                 .outputs = model_.vocab,
                                 .y = logits_.as<float>()}));
  return std::span<const float>(logits_.as<float>(), rows.size() * vocab);
}

Result<std::span<const float>> AttentionLayers::OnHost(std::span<const float> logits) {
  if (is_host_) return logits;
  JANUS_CHECK(logits.size_bytes() <= host_logits_.size(), logits.size());
  JANUS_RETURN_IF_ERROR(context_.CopyOut(host_logits_.data(), logits.data(), logits.size_bytes()));
  JANUS_RETURN_IF_ERROR(context_.Wait());
  return std::span<const float>(host_logits_.as<float>(), logits.size());
}

}  // namespace janus::dataplane
