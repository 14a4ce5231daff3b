#include "dataplane/attention/layers.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "dataplane/attention/micro_batch.h"
#include "dataplane/attention/projection.h"
#include "dataplane/comm/exchange/row_codec.h"
#include "dataplane/weights/gate.h"

namespace janus::dataplane {
namespace {

// The widest FFN of the attention side.
int LocalIntermediate(const ModelDescription& model) {
  return std::max(model.dense_layers.empty() ? 0 : model.dense_intermediate,
                  model.moe.shared_intermediate);
}

}  // namespace

AttentionLayers::StepLayout AttentionLayers::StepLayout::For(const ModelDescription& model,
                                                             const KvPagePool& cache, int parts,
                                                             int room_rows, bool is_host) {
  const auto rows = static_cast<size_t>(room_rows);
  StepLayout l;
  l.rows = 0;  // first, because it needs the widest alignment
  l.experts = l.rows + rows * sizeof(kernels::KvRow);
  const bool has_local = !is_host && LocalIntermediate(model) > 0;
  const int experts = has_local ? model.layers * parts : 0;
  l.tokens = l.experts + static_cast<size_t>(experts) * sizeof(kernels::ActiveExpert);
  l.positions = l.tokens + rows * sizeof(int32_t);
  l.tables = l.positions + rows * sizeof(int32_t);
  l.bytes = l.tables + (is_host ? 0 : static_cast<size_t>(cache.most_uses()) * sizeof(int32_t));
  return l;
}

AttentionLayers::AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                                 const KvPagePool& cache, const kernels::Place& place,
                                 const Room& room)
    : model_(model),
      weights_(weights),
      stream_(place.stream),
      context_(*place.context),
      is_host_(context_.is_host()),
      wire_(WireType(model)),
      format_{model.hidden, wire_, room.compression},
      sums_(room.sums),
      row_bytes_(format_.exact_bytes()),
      room_(room),
      part_room_((room.max_rows + room.micro_batches - 1) / room.micro_batches),
      room_rows_(part_room_ * room.micro_batches),
      layout_(StepLayout::For(model, cache, room.micro_batches, room_rows_, is_host_)),
      attention_(MakeSelfAttention(model, weights, cache, place, part_room_)),
      parts_(static_cast<size_t>(room.micro_batches)),
      step_(context_, layout_.bytes) {
  const auto rows = static_cast<size_t>(room_rows_);
  const auto part_rows = static_cast<size_t>(part_room_);
  const auto hidden = static_cast<size_t>(model.hidden);
  const auto wire_bytes = static_cast<size_t>(SizeOf(wire_));
  classes_.resize(rows);
  residual_ = context_.AllocateOrNote(rows * hidden * sizeof(float));
  // Logits may be requested for all rows at once.
  normed_ = context_.AllocateOrNote(rows * row_bytes_);
  attended_ = context_.AllocateOrNote(
      part_rows * static_cast<size_t>(AttendedWidth(model.attention)) * wire_bytes);
  picked_ = context_.AllocateOrNote(rows * hidden * sizeof(float));
  if (const int intermediate = LocalIntermediate(model); intermediate > 0) {
    local_ = context_.AllocateOrNote(rows * hidden * sizeof(float));
    if (is_host_) local_rows_.resize(rows);
    const auto workspace = kernels::GroupedExpertFfnWorkspace::For(room_rows_, intermediate, wire_);
    ffn_workspace_ = context_.AllocateOrNote(static_cast<size_t>(workspace.bytes));
  }
  if (room.sent.empty() && (!is_host_ || format_.is_packed())) {
    to_experts_ = context_.AllocateOrNote(rows * row_bytes_);
  }
  if (sums_.on()) {
    JANUS_CHECK(room.sent.empty(), room.sent.size());
    const Status valid = Validate(sums_, model.moe_layers(), model.moe.top_k);
    JANUS_CHECK(valid.ok(), valid.ToString());
    for (int layer = 0, next = 0; layer < model.layers; ++layer) {
      moe_layer_.push_back(next);
      if (!model.IsDense(layer)) ++next;
    }
  }
  if (format_.is_packed()) PreparePacking();
  if (room.gate == GateSide::kAttention) {
    JANUS_CHECK(is_host_, part_room_);
    gate_logits_ =
        context_.AllocateOrNote(part_rows * static_cast<size_t>(model.moe.experts) * sizeof(float));
    gated_rows_.resize(part_rows);
  }
  if (!is_host_) PrepareDevice(cache.spare_page());
}

void AttentionLayers::PreparePacking() {
  JANUS_CHECK(room_.sent.empty(), room_.sent.size());
  const auto rows = static_cast<size_t>(room_rows_);
  if (!is_host_) packed_ = context_.AllocateOrNote(rows * format_.bytes());
  // Sums are not packed, and then only the gate has anything to unpack.
  const size_t rows_to_gate = room_.gate == GateSide::kAttention ? 1 : 0;
  unpacked_of_row_ = sums_.on() ? rows_to_gate : static_cast<size_t>(model_.moe.top_k);
  const size_t slots = rows * unpacked_of_row_;
  if (slots == 0) return;
  unpacked_ = context_.AllocateOrNote(slots * row_bytes_);
  if (!is_host_ || sums_.on()) return;
  unpacked_pointers_.resize(slots);
  for (size_t i = 0; i < slots; ++i) unpacked_pointers_[i] = unpacked_.data() + i * row_bytes_;
}

// Allocates what only a GPU needs: buffers for rows on their way, and tables of their addresses.
void AttentionLayers::PrepareDevice(int32_t spare_page) {
  const auto rows = static_cast<size_t>(room_rows_);
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto logits =
      static_cast<size_t>(room_.most_logits) * static_cast<size_t>(model_.vocab) * sizeof(float);
  logits_ = context_.AllocateOrNote(logits);
  if (room_.logits_on_host) host_logits_ = context_.AllocatePinnedOrNote(logits);
  const size_t slots = static_cast<size_t>(part_room_) * static_cast<size_t>(PartsOnDevice());
  const size_t taken_bytes = sums_.on() ? SumBytes(sums_.bits, model_.hidden) : row_bytes_;
  for (int i = 0; i < room_.micro_batches; ++i) {
    Taken& taken = taken_.emplace_back();
    taken.rows = kernels::Staging(context_, slots * (sums_.on() ? taken_bytes : format_.bytes()));
    taken.pointers = kernels::Staging(context_, slots * sizeof(void*));
    if (taken.pointers.host() == nullptr) continue;
    auto* const pointers = taken.pointers.host_at<const void*>(0);
    const std::byte* const at =
        format_.is_packed() && !sums_.on() ? UnpackedOf(i) : taken.rows.device();
    for (size_t j = 0; j < slots; ++j) pointers[j] = at + j * taken_bytes;
    context_.NoteFailure(taken.pointers.Push(0, slots * sizeof(pointers[0])));
  }
  const std::vector<int32_t> unused(static_cast<size_t>(KvPagePool::PagesFor(part_room_)),
                                    spare_page);
  unused_table_ = context_.AllocateCopyOrNote(unused.data(), unused.size() * sizeof(unused[0]));
  if (local_.size() == 0) return;
  std::vector<kernels::Contribution> local(rows);
  // Clear the padding between the fields, because it is copied to the device too.
  std::memset(static_cast<void*>(local.data()), 0, rows * sizeof(local[0]));
  for (size_t i = 0; i < rows; ++i) {
    const auto part_room = static_cast<size_t>(part_room_);
    local[i].x = SentRows(static_cast<int>(i / part_room)) + i % part_room * row_bytes_;
    local[i].y = local_.as<float>() + i * hidden;
    local[i].weight = 1.0f;
  }
  device_local_rows_ = context_.AllocateCopyOrNote(local.data(), rows * sizeof(local[0]));
  if (!model_.moe.has_shared_gate) return;
  device_gated_rows_ = context_.AllocateCopyOrNote(local.data(), rows * sizeof(local[0]));
}

std::byte* AttentionLayers::SentRows(int part) const {
  return room_.sent.empty() ? to_experts_.data() + static_cast<size_t>(RowAt(part)) * row_bytes_
                            : room_.sent[static_cast<size_t>(part)];
}

std::byte* AttentionLayers::UnpackedOf(int part) const {
  return unpacked_.data() + static_cast<size_t>(RowAt(part)) * unpacked_of_row_ * row_bytes_;
}

size_t AttentionLayers::PieceOf(Work work, int layer, int part) const {
  return static_cast<size_t>(
      (static_cast<int>(work) * model_.layers + layer) * room_.micro_batches + part);
}

Status AttentionLayers::Record(int most_rows) {
  graphs_ = kernels::RowGraphs(PieceOf(Work::kLocal, model_.layers, 0),
                               std::min(most_rows, part_room_), part_room_);
  const std::vector<PositionClass> generated(static_cast<size_t>(part_room_),
                                             PositionClass::kGenerated);
  const auto record = [&](Work work, int layer, int part) {
    return graphs_.Record(
        context_, PieceOf(work, layer, part), [&](const kernels::Stream& on, int count) {
          return StartOn(on, work, layer, {part, RowAt(part), count, generated.data()});
        });
  };
  for (int layer = 0; layer < model_.layers; ++layer) {
    const bool has_local = !model_.IsDense(layer) && model_.moe.shared_intermediate > 0;
    for (int part = 0; part < room_.micro_batches; ++part) {
      JANUS_RETURN_IF_ERROR(record(Work::kLayer, layer, part));
      if (has_local) JANUS_RETURN_IF_ERROR(record(Work::kLocal, layer, part));
    }
  }
  return OkStatus();
}

Status AttentionLayers::NormRows(const kernels::Stream& on, const float* x, const Tensor& weight,
                                 void* y, int count) const {
  return Norm(on, weight,
              {.x = x,
               .y = y,
               .y_dtype = wire_,
               .count = count,
               .size = model_.hidden,
               .epsilon = model_.norm_epsilon});
}

AttentionLayers::Rows AttentionLayers::RowsOf(int part) const {
  const int at = RowAt(part);
  return {part, at, rows(part), classes_.data() + at};
}

int AttentionLayers::PlaceOf(int batch_row) const {
  int part = 0;
  while (batch_row >= parts_[static_cast<size_t>(part)].first + rows(part)) ++part;
  return RowAt(part) + batch_row - parts_[static_cast<size_t>(part)].first;
}

Status AttentionLayers::Begin(const Batch& batch) {
  const int count = static_cast<int>(batch.rows.size());
  JANUS_CHECK(count <= room_.max_rows, count, room_.max_rows);
  for (int i = 0; i < room_.micro_batches; ++i) {
    const Part part = MicroBatch(count, i, room_.micro_batches, room_.turn);
    parts_[static_cast<size_t>(i)] = {part.first, part.rows, 0, 0, {}};
  }
  if (count == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(step_.Reopen());
  const size_t used = layout_.tables + PlaceRows(batch) * sizeof(int32_t);
  if (!is_host_) {
    for (int i = 0; i < room_.micro_batches; ++i) PlaceUnused(i);
    PlaceLocalExperts();
  }
  return step_.Push(0, used);
}

// Fills in the rows' positions and block tables. On the host these point to the sequence's own
// table. For a GPU the table is copied, once for the neighbouring rows of a sequence. Returns how
// many page numbers were copied.
size_t AttentionLayers::PlaceRows(const Batch& batch) {
  auto* const rows = step_.host_at<kernels::KvRow>(layout_.rows);
  auto* const tokens = step_.host_at<int32_t>(layout_.tokens);
  auto* const positions = step_.host_at<int32_t>(layout_.positions);
  auto* const tables = step_.host_at<int32_t>(layout_.tables);
  const auto* const device_tables = step_.device_at<int32_t>(layout_.tables);
  const Sequence* before = nullptr;
  size_t first = 0, end = 0;
  for (int part = 0; part < room_.micro_batches; ++part) {
    const auto begin = static_cast<size_t>(parts_[static_cast<size_t>(part)].first);
    for (size_t i = 0; i < static_cast<size_t>(this->rows(part)); ++i) {
      const BatchRow& row = batch.rows[begin + i];
      const size_t at = static_cast<size_t>(RowAt(part)) + i;
      tokens[at] = row.token;
      positions[at] = rows[at].position = row.position;
      classes_[at] = row.position_class;
      const std::vector<int32_t>& pages = row.sequence->pages;
      if (is_host_) {
        rows[at].block_table = pages.data();
        continue;
      }
      if (row.sequence != before) {
        before = row.sequence;
        first = end;
        end += pages.size();
        JANUS_CHECK(layout_.tables + end * sizeof(int32_t) <= layout_.bytes, end);
        std::copy(pages.begin(), pages.end(), tables + first);
      }
      rows[at].block_table = device_tables + first;
    }
  }
  return end;
}

// If a part's launches were recorded for more rows than it has, the further rows get the form of a
// separate sequence on the spare page.
void AttentionLayers::PlaceUnused(int part) {
  PartRows& own = parts_[static_cast<size_t>(part)];
  if (own.rows == 0) return;
  const Rows rows = RowsOf(part);
  const bool alike = !attention_->has_classes() ||
                     std::all_of(rows.classes, rows.classes + rows.count,
                                 [](PositionClass of) { return of == PositionClass::kGenerated; });
  if (!alike) return;
  own.recorded = graphs_.RowsFor(own.rows);
  for (int i = own.rows; i < own.recorded; ++i) {
    const int at = rows.at + i;
    step_.host_at<int32_t>(layout_.tokens)[at] = 0;
    step_.host_at<int32_t>(layout_.positions)[at] = i - own.rows;
    step_.host_at<kernels::KvRow>(layout_.rows)[at].block_table = unused_table_.as<int32_t>();
    step_.host_at<kernels::KvRow>(layout_.rows)[at].position = i - own.rows;
  }
}

// For each layer and part, describes the local FFN as one expert that gets all rows.
void AttentionLayers::PlaceLocalExperts() {
  if (local_.size() == 0) return;
  auto* const experts = step_.host_at<kernels::ActiveExpert>(layout_.experts);
  for (int layer = 0; layer < model_.layers; ++layer) {
    const FfnTensors& ffn = weights_.layers[static_cast<size_t>(layer)].ffn;
    for (int i = 0; i < room_.micro_batches; ++i) {
      kernels::ActiveExpert& all = experts[layer * room_.micro_batches + i];
      all = {};
      all.gate = ffn.gate.data;
      all.up = ffn.up.data;
      all.down = ffn.down.data;
      all.first = RowAt(i);
      all.count = rows(i);
    }
  }
}

Status AttentionLayers::Start(Work work, int layer, int part) {
  const int recorded = parts_[static_cast<size_t>(part)].recorded;
  return recorded > 0 ? graphs_.Replay(context_, PieceOf(work, layer, part), recorded)
                      : StartOn(stream_, work, layer, RowsOf(part));
}

Status AttentionLayers::StartOn(const kernels::Stream& on, Work work, int layer, const Rows& rows) {
  std::byte* const x = SentRows(rows.part);
  if (work == Work::kLocal) return Shared(on, layer, rows, x);
  return model_.IsDense(layer) ? Dense(on, layer, rows, x) : AttendInto(on, layer, rows, x);
}

Status AttentionLayers::Attend(int layer, int part, std::byte* out) {
  const Rows rows = RowsOf(part);
  parts_[static_cast<size_t>(part)].layer = layer;
  if (rows.count == 0) return OkStatus();
  if (is_host_) {
    if (!format_.is_packed()) return AttendInto(stream_, layer, rows, out);
    JANUS_RETURN_IF_ERROR(AttendInto(stream_, layer, rows, SentRows(part)));
    return PackRows(stream_, format_, SentRows(part), rows.count, out);
  }
  JANUS_RETURN_IF_ERROR(Start(Work::kLayer, layer, part));
  if (!room_.sent.empty()) return OkStatus();
  const std::byte* ready = SentRows(part);
  if (format_.is_packed()) {
    std::byte* const packed = packed_.data() + static_cast<size_t>(rows.at) * format_.bytes();
    JANUS_RETURN_IF_ERROR(PackRows(stream_, format_, ready, rows.count, packed));
    ready = packed;
  }
  return context_.CopyOut(out, ready, static_cast<size_t>(rows.count) * format_.bytes());
}

Status AttentionLayers::Gate(int layer, int part, const std::byte* rows, std::span<uint16_t> ids,
                             std::span<float> weights) {
  const int count = this->rows(part);
  if (count == 0) return OkStatus();
  if (format_.is_packed()) {
    // The contributions of the layer before, which lay here, have been added.
    std::byte* const unpacked = UnpackedOf(part);
    JANUS_RETURN_IF_ERROR(UnpackRows(stream_, format_, rows, count, unpacked));
    rows = unpacked;
  }
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) gated_rows_[i] = rows + i * row_bytes_;
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  kernels::GateTopKArgs args = GateOf(model_, w.moe_gate, w.moe_gate_bias);
  args.x_rows = gated_rows_.data();
  args.logits = gate_logits_.as<float>();
  args.ids = ids.data();
  args.weights = weights.data();
  args.rows = count;
  return kernels::GateTopK(stream_, args);
}

Status AttentionLayers::EmbedRows(const kernels::Stream& on, const Rows& rows) {
  kernels::EmbedArgs args;
  args.tokens = step_.device_at<int32_t>(layout_.tokens) + rows.at;
  args.table = weights_.embedding.data;
  args.table_dtype = weights_.embedding.dtype;
  args.y = residual_.as<float>() + int64_t{rows.at} * model_.hidden;
  args.rows = rows.count;
  args.vocab = model_.vocab;
  args.hidden = model_.hidden;
  return kernels::Embed(on, args);
}

Status AttentionLayers::AttendInto(const kernels::Stream& on, int layer, const Rows& rows,
                                   std::byte* out) {
  if (layer == 0) JANUS_RETURN_IF_ERROR(EmbedRows(on, rows));
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  float* residual = residual_.as<float>() + int64_t{rows.at} * model_.hidden;
  JANUS_RETURN_IF_ERROR(NormRows(on, residual, w.input_norm, normed_.data(), rows.count));
  const AttentionRows attending{.rows = step_.device_at<kernels::KvRow>(layout_.rows) + rows.at,
                                .positions = step_.device_at<int32_t>(layout_.positions) + rows.at,
                                .classes = rows.classes,
                                .on_host = step_.host_at<kernels::KvRow>(layout_.rows) + rows.at,
                                .count = rows.count};
  JANUS_RETURN_IF_ERROR(attention_->Attend(on, layer, attending, normed_.data(), attended_.data()));
  JANUS_RETURN_IF_ERROR(Project(on, w.o,
                                {.x = attended_.data(),
                                 .x_dtype = wire_,
                                 .count = rows.count,
                                 .inputs = AttendedWidth(model_.attention),
                                 .outputs = model_.hidden,
                                 .y = residual,
                                 .accumulate = true,
                                 .bias = w.o_bias}));
  return NormRows(on, residual, w.post_norm, out, rows.count);
}

Status AttentionLayers::WeighRows(const kernels::Stream& on, const Tensor& gate, const Rows& rows,
                                  const std::byte* x, kernels::Contribution* contributions) {
  static_assert(sizeof(kernels::Contribution) % sizeof(float) == 0);
  constexpr int64_t kStride = sizeof(kernels::Contribution) / sizeof(float);
  // They may lie on the device, so only their address is calculated.
  auto* const weights = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(contributions) +
                                                 offsetof(kernels::Contribution, weight));
  JANUS_RETURN_IF_ERROR(Project(on, gate,
                                {.x = x,
                                 .x_dtype = wire_,
                                 .count = rows.count,
                                 .inputs = model_.hidden,
                                 .outputs = 1,
                                 .y = weights,
                                 .y_stride = kStride}));
  return kernels::Pointwise(on, {.x = weights,
                                 .function = kernels::PointFunction::kSigmoid,
                                 .rows = rows.count,
                                 .columns = 1,
                                 .row_stride = kStride});
}

Status AttentionLayers::Shared(const kernels::Stream& on, int layer, const Rows& rows,
                               const std::byte* x) {
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  return Ffn(on, w.ffn, w.shared_gate, layer, model_.moe.shared_intermediate, rows, x);
}

Status AttentionLayers::Ffn(const kernels::Stream& on, const FfnTensors& ffn, const Tensor& gate,
                            int layer, int intermediate, const Rows& rows, const std::byte* x) {
  kernels::ActiveExpert all;
  kernels::GroupedExpertFfnArgs args;
  if (is_host_) {
    for (int i = 0; i < rows.count; ++i) {
      local_rows_[static_cast<size_t>(i)] = {
          x + static_cast<size_t>(i) * row_bytes_,
          local_.as<float>() + int64_t{rows.at + i} * model_.hidden, 1.0f};
    }
    if (gate.data != nullptr) {
      JANUS_RETURN_IF_ERROR(WeighRows(on, gate, rows, x, local_rows_.data()));
    }
    all.gate = ffn.gate.data;
    all.up = ffn.up.data;
    all.down = ffn.down.data;
    all.count = rows.count;
    args.experts = &all;
    args.contributions = local_rows_.data();
    args.num_contributions = rows.count;
  } else {
    args.experts = step_.device_at<kernels::ActiveExpert>(layout_.experts) +
                   layer * room_.micro_batches + rows.part;
    const kernels::Buffer& all_rows =
        gate.data != nullptr ? device_gated_rows_ : device_local_rows_;
    auto* const contributions = all_rows.as<kernels::Contribution>();
    if (gate.data != nullptr) {
      JANUS_RETURN_IF_ERROR(WeighRows(on, gate, rows, x, contributions + rows.at));
    }
    args.contributions = contributions;
    args.num_contributions = rows.at + rows.count;  // those of the expert begin at `at`
  }
  args.num_experts = 1;
  args.hidden = model_.hidden;
  args.intermediate = intermediate;
  args.weight_dtype = ffn.gate.dtype;
  args.row_dtype = wire_;
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  return kernels::GroupedExpertFfn(on, args);
}

Status AttentionLayers::SharedExperts(int layer, int part, const std::byte* rows) {
  if (this->rows(part) == 0 || model_.moe.shared_intermediate == 0) return OkStatus();
  if (!is_host_) return Start(Work::kLocal, layer, part);
  return Shared(stream_, layer, RowsOf(part), format_.is_packed() ? SentRows(part) : rows);
}

Status AttentionLayers::Combine(const kernels::Stream& on, const Rows& rows,
                                std::span<const void* const> contributions, int top_k, bool local) {
  const int64_t offset = int64_t{rows.at} * model_.hidden;
  kernels::CombineSlotsArgs args;
  args.contributions = contributions.data();
  args.dtype = wire_;
  args.local = local ? local_.as<float>() + offset : nullptr;
  args.residual = residual_.as<float>() + offset;
  args.y = residual_.as<float>() + offset;
  args.rows = rows.count;
  args.hidden = model_.hidden;
  args.top_k = top_k;
  return kernels::CombineSlots(on, args);
}

Status AttentionLayers::CombineRowSums(const kernels::Stream& on, const Rows& rows, int layer) {
  const int64_t offset = int64_t{rows.at} * model_.hidden;
  kernels::CombineSumsArgs args;
  args.sums = parts_[static_cast<size_t>(rows.part)].contributions.data();
  args.bits = sums_.bits;
  args.exponent = sums_.exponent(moe_layer_[static_cast<size_t>(layer)]);
  args.local = model_.moe.shared_intermediate > 0 ? local_.as<float>() + offset : nullptr;
  args.residual = residual_.as<float>() + offset;
  args.y = residual_.as<float>() + offset;
  args.rows = rows.count;
  args.hidden = model_.hidden;
  args.top_k = PartsOnDevice();
  return kernels::CombineSums(on, args);
}

Status AttentionLayers::TakeSums(int part, std::span<const void* const> sums) {
  Taken& taken = taken_[static_cast<size_t>(part)];
  const auto rows = static_cast<size_t>(this->rows(part));
  const auto k = static_cast<size_t>(model_.moe.top_k);
  const size_t bytes = SumBytes(sums_.bits, model_.hidden);
  JANUS_RETURN_IF_ERROR(taken.rows.Reopen());
  for (size_t row = 0; row < rows; ++row) {
    std::byte* const to = taken.rows.host() + row * bytes;
    bool is_first = true;
    for (const void* const sum : sums.subspan(row * k, k)) {
      if (sum == nullptr) continue;
      if (is_first) {
        std::memcpy(to, sum, bytes);
      } else {
        AddSum(sums_.bits, model_.hidden, to, static_cast<const std::byte*>(sum));
      }
      is_first = false;
    }
  }
  JANUS_RETURN_IF_ERROR(taken.rows.Push(0, rows * bytes));
  parts_[static_cast<size_t>(part)].contributions = {taken.pointers.device_at<const void* const>(0),
                                                     rows};
  return OkStatus();
}

// For a GPU, gathers the contributions that are on the host. One copy takes the range from the
// first to the last of them.
Status AttentionLayers::TakeExperts(int part, std::span<const void* const> contributions,
                                    std::span<const uint8_t> on_device) {
  const Rows rows = RowsOf(part);
  if (rows.count == 0) return OkStatus();
  std::span<const void* const>& given = parts_[static_cast<size_t>(part)].contributions;
  const size_t slots = static_cast<size_t>(rows.count) * static_cast<size_t>(model_.moe.top_k);
  given = contributions;
  if (is_host_) {
    if (!format_.is_packed() || sums_.on()) return OkStatus();
    const size_t first = static_cast<size_t>(rows.at) * static_cast<size_t>(model_.moe.top_k);
    given = std::span(unpacked_pointers_).subspan(first, slots);
    return UnpackRows(stream_, format_, contributions.first(slots), UnpackedOf(part));
  }
  JANUS_CHECK((!format_.is_packed() && !sums_.on()) || on_device.empty(), on_device.size());
  if (sums_.on()) return TakeSums(part, contributions);
  Taken& taken = taken_[static_cast<size_t>(part)];
  JANUS_RETURN_IF_ERROR(taken.rows.Reopen());
  const size_t bytes = format_.bytes();
  const auto is_here = [&](size_t i) { return !on_device.empty() && on_device[i] != 0; };
  size_t first = slots, last = 0;
  for (size_t i = 0; i < slots; ++i) {
    if (is_here(i)) continue;
    std::memcpy(taken.rows.host() + i * bytes, contributions[i], bytes);
    first = std::min(first, i);
    last = i + 1;
  }
  if (first < last) {
    JANUS_RETURN_IF_ERROR(taken.rows.Push(first * bytes, (last - first) * bytes));
  }
  if (format_.is_packed()) {
    JANUS_RETURN_IF_ERROR(UnpackRows(stream_, format_, taken.rows.device(),
                                     static_cast<int64_t>(slots), UnpackedOf(part)));
  }
  if (!on_device.empty()) {
    JANUS_RETURN_IF_ERROR(taken.pointers.Reopen());
    auto* const pointers = taken.pointers.host_at<const void*>(0);
    for (size_t i = 0; i < slots; ++i) {
      pointers[i] = is_here(i) ? contributions[i] : taken.rows.device() + i * row_bytes_;
    }
    JANUS_RETURN_IF_ERROR(taken.pointers.Push(0, slots * sizeof(pointers[0])));
  }
  given = {taken.pointers.device_at<const void* const>(0), slots};
  return OkStatus();
}

Status AttentionLayers::AddExperts(int part) {
  const Rows rows = RowsOf(part);
  if (rows.count == 0) return OkStatus();
  if (sums_.on()) {
    return CombineRowSums(stream_, rows, parts_[static_cast<size_t>(part)].layer);
  }
  return Combine(stream_, rows, parts_[static_cast<size_t>(part)].contributions, model_.moe.top_k,
                 model_.moe.shared_intermediate > 0);
}

Status AttentionLayers::DenseLayer(int layer, int part) {
  const Rows rows = RowsOf(part);
  if (rows.count == 0) return OkStatus();
  if (is_host_) return Dense(stream_, layer, rows, normed_.data());
  return Start(Work::kLayer, layer, part);
}

Status AttentionLayers::Dense(const kernels::Stream& on, int layer, const Rows& rows,
                              std::byte* x) {
  JANUS_RETURN_IF_ERROR(AttendInto(on, layer, rows, x));
  const FfnTensors& ffn = weights_.layers[static_cast<size_t>(layer)].ffn;
  JANUS_RETURN_IF_ERROR(Ffn(on, ffn, {}, layer, model_.dense_intermediate, rows, x));
  return Combine(on, rows, {}, 0, true);
}

Result<std::span<const float>> AttentionLayers::Logits(std::span<const int32_t> rows) {
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto vocab = static_cast<size_t>(model_.vocab);
  // Copies neighbouring rows in one piece.
  for (size_t i = 0, end = 0; i < rows.size(); i = end) {
    const int at = PlaceOf(rows[i]);
    for (end = i + 1; end < rows.size() && PlaceOf(rows[end]) == at + static_cast<int>(end - i);) {
      ++end;
    }
    JANUS_RETURN_IF_ERROR(context_.CopyWithin(
        picked_.as<float>() + i * hidden, residual_.as<float>() + static_cast<size_t>(at) * hidden,
        (end - i) * hidden * sizeof(float)));
  }
  const int count = static_cast<int>(rows.size());
  JANUS_RETURN_IF_ERROR(
      NormRows(stream_, picked_.as<float>(), weights_.final_norm, normed_.data(), count));
  const size_t bytes = rows.size() * vocab * sizeof(float);
  if (is_host_ && logits_.size() < bytes) {
    JANUS_ASSIGN_OR_RETURN(logits_, context_.Allocate(bytes));
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
