#include "common/model/device_memory.h"

#include <algorithm>

#include "common/fixed_point.h"
#include "common/page_tokens.h"

namespace janus {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kPointer = 8;
// Keys per split; the softmax states of splits are merged (kernels/kernels.h, kKeySplit).
constexpr int64_t kSplitKeys = 1024;
// Alignment of each buffer.
constexpr int64_t kGap = 512;
constexpr int64_t kGraph = int64_t{32} << 10;
constexpr int kMostRecordedRows = 512;  // of a round at an expert instance
// A contribution: row, destination and weight. An active expert: its tensors.
constexpr int64_t kContribution = 24;
constexpr int64_t kActiveExpert = 80;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t RowBytes(const ModelDescription& model) {
  return int64_t{model.hidden} * SizeOf(WireType(model));
}

// A row in the exchange if the exchange compresses; else 0.
int64_t PackedBytes(const ModelDescription& model, const RoundRoom& room) {
  const RowFormat format{model.hidden, WireType(model), room.compression};
  return format.is_packed() ? static_cast<int64_t>(format.bytes()) : 0;
}

// A sum of contributions; 0: they travel one by one.
int64_t SummedRowBytes(const ModelDescription& model, const RoundRoom& room) {
  return static_cast<int64_t>(SumBytes(room.sum_bits, model.hidden));
}

// Bytes of one row of an FFN's hidden activations.
int64_t HiddenBytes(int64_t intermediate, int64_t wire) {
  return CeilDiv(intermediate * wire, 64) * 64;
}

// Rows of one part, and of all parts.
int64_t PartRows(const RoundRoom& room) {
  return CeilDiv(room.rows, room.micro_batches);
}
int64_t AllRows(const RoundRoom& room) {
  return PartRows(room) * room.micro_batches;
}

// Queries, keys and values, and the states of splits.
int64_t GroupedBytes(const AttentionDescription& a, int64_t rows, int64_t keys) {
  const int64_t width = int64_t{a.heads + 2 * a.kv_heads} * a.head_dim;
  const int64_t states = (rows + keys / kSplitKeys) * a.heads * (a.head_dim + 2);
  return kFloat * (rows * width + states);
}

// Queries and their latent vectors, keys, and for 64 rows at a time queries and results in the
// latent space. Also either the states of splits there, or expanded keys.
int64_t LatentBytes(const AttentionDescription& a, int64_t wire, int64_t rows, int64_t keys) {
  const LatentDescription& l = *a.latent;
  const int64_t at_once = std::min<int64_t>(rows, 64);
  const int64_t own =
      rows * ((kFloat + wire) * l.query_rank +
              kFloat * (int64_t{a.heads} * a.head_dim + l.rank + a.rope.rotary_dim));
  const int64_t in_latent_space = 2 * kFloat * at_once * a.heads * l.rank;
  const int64_t states = kFloat * (at_once + keys / kSplitKeys) * a.heads * (int64_t{l.rank} + 2);
  // Either for up to 64 heads at once, or one area for each of 128 thread blocks.
  const int64_t heads = std::min(a.heads, 64);
  const int64_t shared =
      heads * (2048 * 2 * 2 * 128 + std::min<int64_t>(rows, 512) * 130 * kFloat) + 2048 * 2 * 64 +
      32 * 512;
  const int64_t value = CeilDiv(l.value_dim, 16) * 16;
  const int64_t areas =
      128 * kFloat * (64 * (CeilDiv(a.head_dim, 16) * 16 + value) + 512 * (value + 16));
  const bool is_shared = l.rank == 512 && a.rope.rotary_dim == 64 && a.nope_dim() == 128 &&
                         l.value_dim == 128 && wire == 2;
  return own + in_latent_space + std::max(states, is_shared ? shared : areas);
}

// The number of recordings (for 1, 2, 3, 4, 6, 8, 12, ... rows) that serve up to `rows`.
int64_t Recordings(int64_t rows) {
  int64_t count = 0;
  for (int64_t power = 1; power <= rows; power *= 2)
    count += power > 1 && power / 2 * 3 <= rows ? 2 : 1;
  return count + 1;
}

}  // namespace

int64_t AttentionDeviceBytes(const ModelDescription& model, const RoundRoom& room, int64_t keys) {
  const AttentionDescription& a = model.attention;
  const int64_t wire = SizeOf(WireType(model));
  const int64_t hidden = model.hidden;
  const int64_t part = PartRows(room), rows = AllRows(room);
  const int64_t row = RowBytes(model);
  const int64_t attended = int64_t{a.heads} * (a.latent ? a.latent->value_dim : a.head_dim);
  const int64_t local = std::max(model.dense_layers.empty() ? 0 : model.dense_intermediate,
                                 model.moe.shared_intermediate);
  constexpr int64_t kDrawn = 40 + 172;  // parameters and result of drawing a token
  constexpr int64_t kPlaces = 24;       // token, position, place of its page list
  const int64_t pages = CeilDiv(keys, kPageTokens);
  int64_t bytes = rows * (2 * kFloat * hidden + row + kPlaces) + part * wire * attended +
                  kFloat * model.vocab * (int64_t{room.batch} + 3) + kDrawn * room.rows +
                  kFloat * (pages + part);
  if (local > 0) {
    const int64_t contributions = model.moe.has_shared_gate ? 2 : 1;
    bytes += rows * (kFloat * hidden + HiddenBytes(local, wire) + contributions * kContribution) +
             kActiveExpert * model.layers * room.micro_batches;
  }
  const int64_t packed = PackedBytes(model, room);
  bytes += rows * packed;
  bytes += room.sum_bits > 0 ? rows * (SummedRowBytes(model, room) + kPointer)
                             : rows * model.moe.top_k * (row + packed + kPointer);
  bytes += a.latent ? LatentBytes(a, wire, part, keys) : GroupedBytes(a, part, keys);
  if (a.temperature) bytes += kFloat * a.temperature->Steps(model.max_positions);
  return bytes + kGap * (32 + 4 * room.micro_batches);
}

int64_t ExpertDeviceBytes(const ModelDescription& model, const RoundRoom& room, int senders,
                          int instances, int slots) {
  const int64_t wire = SizeOf(WireType(model));
  const int64_t experts = model.moe.experts;
  const int64_t rows = int64_t{senders} * room.rows;
  const int64_t pairs = rows * model.moe.top_k;
  const int64_t row = RowBytes(model);
  // The fast gate sums pieces of 256 of the hidden size, for up to 512 rows.
  const int64_t gate =
      kFloat * experts * (rows + CeilDiv(model.hidden, 256) * std::min<int64_t>(rows, 512));
  // Id, weight, assigned replica, place in the lists.
  constexpr int64_t kPair = 2 + 4 + 4 + kContribution;
  // Per layer: the replicas of each expert and their places, and the tensors of its slots.
  const int64_t tables = int64_t{model.moe_layers()} *
                         (16 * experts + 8 * int64_t{instances} * slots + kActiveExpert * slots);
  const int64_t packed = PackedBytes(model, room);
  const int64_t back =
      room.sum_bits > 0 ? rows * (SummedRowBytes(model, room) + 4) : pairs * packed;
  return rows * (row + kPointer + 4) + rows * packed + back + gate +
         pairs * (kPair + HiddenBytes(model.moe.intermediate, wire)) + kActiveExpert * (slots + 1) +
         6 * experts + 16 * int64_t{instances} + tables + 64 * senders + kGap * 32;
}

int64_t AttentionDeviceSlotBytes(const ModelDescription& model, const RoundRoom& room) {
  if (room.compression != Compression::kNone || room.sum_bits > 0) {
    return AllRows(room) * RowBytes(model) + kGap;
  }
  return room.micro_batches *
         (int64_t{room.rows} * RowBytes(model) * (1 + model.moe.top_k) + 2 * kGap);
}

int64_t ExpertDeviceSlotBytes(const ModelDescription& model, const RoundRoom& room, int senders) {
  const int64_t pairs = int64_t{senders} * room.rows * model.moe.top_k;
  if (room.sum_bits > 0) return pairs * model.hidden * kFloat + kGap;
  if (room.compression != Compression::kNone) return pairs * RowBytes(model) + kGap;
  const int64_t contributions = int64_t{room.rows} * model.moe.top_k * (RowBytes(model) + 4);
  return room.micro_batches * int64_t{senders} *
         (contributions + int64_t{room.rows} * RowBytes(model) + 2 * kGap);
}

int64_t AttentionGraphBytes(const ModelDescription& model, const RoundRoom& room) {
  const int64_t pieces = int64_t{model.layers} + model.moe_layers();
  const int64_t most = std::min<int64_t>(room.batch, PartRows(room));
  return kGraph * pieces * room.micro_batches * Recordings(most);
}

int64_t ExpertGraphBytes(const ModelDescription& model, const RoundRoom& room, int senders) {
  const int64_t most = std::min<int64_t>(int64_t{senders} * room.rows, kMostRecordedRows);
  return kGraph * 2 * model.moe_layers() * Recordings(most);
}

}  // namespace janus
