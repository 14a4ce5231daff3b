// The CPU device: one team run per pass of an operation, on the stream's instruction set.

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "kernels/backends.h"
#include "kernels/cpu/table.h"

namespace janus::kernels {
namespace {

// Multiply-adds, or elements of operations that only move them times kMove, that take about as long
// as waking a team and waiting for it: 2 to 3 us.
constexpr int64_t kAlone = 1 << 16;
constexpr int64_t kMove = 8;

// Whether the product of the factors, none negative, is at most kAlone.
bool IsSmall(std::initializer_list<int64_t> factors) {
  int64_t work = 1;
  for (const int64_t factor : factors) {
    if (factor > kAlone) return false;
    work *= factor;
    if (work > kAlone) return false;
  }
  return true;
}

template <class Fn>
void Run(const Stream& stream, bool alone, Fn&& fn) {
  if (alone) {
    Team::RunAlone(fn);
  } else {
    stream.team->Run(fn);
  }
}

// Keys that all rows see, times what each costs.
bool IsSmall(const PagedAttentionArgs& args) {
  int64_t keys = 0;
  for (int64_t t = 0; t < args.num_rows && keys <= kAlone; ++t) {
    const int64_t before = args.rows[t].position + int64_t{1};
    const int most = args.sliding_window + args.chunk;  // at most one of them is set
    keys += most == 0 ? before : std::min<int64_t>(before, most);
  }
  return IsSmall({keys, args.heads, args.cache.head_dim, 2});
}

// Keys that the rows see, counted no further than it matters.
int64_t KeysSeen(const KvRow* rows, int64_t count) {
  int64_t keys = 0;
  for (int64_t t = 0; t < count && keys <= kAlone; ++t) keys += rows[t].position + int64_t{1};
  return keys;
}

}  // namespace

void EmbedCpu(const Stream& stream, const EmbedArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.hidden, kMove}),
      [&](int part, int parts) { table.embed(args, part, parts); });
}

void RmsNormCpu(const Stream& stream, const RmsNormArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.groups, args.hidden, kMove}),
      [&](int part, int parts) { table.rms_norm(args, part, parts); });
}

void LinearCpu(const Stream& stream, const LinearArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.outputs, args.inputs}),
      [&](int part, int parts) { table.linear(args, part, parts); });
}

void PointwiseCpu(const Stream& stream, const PointwiseArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.columns, kMove}),
      [&](int part, int parts) { table.pointwise(args, part, parts); });
}

void ScaleByPositionCpu(const Stream& stream, const ScaleByPositionArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.columns, kMove}),
      [&](int part, int parts) { table.scale_by_position(args, part, parts); });
}

void RopeCpu(const Stream& stream, const RopeArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.heads, args.head_dim, kMove}),
      [&](int part, int parts) { table.rope(args, part, parts); });
}

void KvWriteCpu(const Stream& stream, const KvWriteArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.num_rows, args.cache.kv_heads, args.cache.head_dim, kMove}),
      [&](int part, int parts) { table.kv_write(args, part, parts); });
}

void PagedAttentionCpu(const Stream& stream, const PagedAttentionArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Team& team = *stream.team;
  const int64_t split_bytes = table.paged_attention_split_bytes(args, team.size());
  if (split_bytes > 0 && split_bytes <= args.workspace_bytes) {
    team.Run([&](int part, int parts) { table.paged_attention_split_1(args, part, parts); });
    team.Run([&](int part, int parts) { table.paged_attention_split_2(args, part, parts); });
    return;
  }
  Run(stream, IsSmall(args),
      [&](int part, int parts) { table.paged_attention(args, part, parts); });
}

void LatentWriteCpu(const Stream& stream, const LatentWriteArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.num_rows, args.cache.rank + int64_t{args.cache.rope}, kMove}),
      [&](int part, int parts) { table.latent_write(args, part, parts); });
}

void HeadLinearCpu(const Stream& stream, const HeadLinearArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.heads, args.outputs, args.inputs}),
      [&](int part, int parts) { table.head_linear(args, part, parts); });
}

void AbsorbedAttentionCpu(const Stream& stream, const AbsorbedAttentionArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  const int64_t keys = KeysSeen(args.rows, args.num_rows);
  Run(stream, IsSmall({keys, args.heads, args.cache.rank, 2}),
      [&](int part, int parts) { table.absorbed_attention(args, part, parts); });
}

void ExpandedAttentionCpu(const Stream& stream, const ExpandedAttentionArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  const int64_t keys = KeysSeen(args.rows, args.num_rows);
  Run(stream, IsSmall({keys, args.heads, args.cache.rank, int64_t{args.nope_dim} + args.value_dim}),
      [&](int part, int parts) { table.expanded_attention(args, part, parts); });
}

void GateTopKCpu(const Stream& stream, const GateTopKArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.experts, args.hidden}),
      [&](int part, int parts) { table.gate_top_k_1(args, part, parts); });
  Run(stream, IsSmall({args.rows, args.experts, kMove}),
      [&](int part, int parts) { table.gate_top_k_2(args, part, parts); });
}

void GroupedExpertFfnCpu(const Stream& stream, const GroupedExpertFfnArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  const int64_t h_row_bytes =
      GroupedExpertFfnWorkspace::For(args.num_contributions, args.intermediate, args.row_dtype)
          .h_row_bytes;
  const bool alone = IsSmall({args.num_contributions, args.hidden, args.intermediate});
  Run(stream, alone,
      [&](int part, int parts) { table.grouped_expert_ffn_1(args, h_row_bytes, part, parts); });
  Run(stream, alone,
      [&](int part, int parts) { table.grouped_expert_ffn_2(args, h_row_bytes, part, parts); });
}

void CombineSlotsCpu(const Stream& stream, const CombineSlotsArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.hidden, args.top_k, kMove}),
      [&](int part, int parts) { table.combine_slots(args, part, parts); });
}

void AddTermsCpu(const Stream& stream, const AddTermsArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.ends[args.rows - 1], args.hidden, kMove}),
      [&](int part, int parts) { table.add_terms(args, part, parts); });
}

void CombineSumsCpu(const Stream& stream, const CombineSumsArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.hidden, args.top_k, kMove}),
      [&](int part, int parts) { table.combine_sums(args, part, parts); });
}

void PermuteRowsCpu(const Stream& stream, const PermuteRowsArgs& args) {
  const int64_t x_stride = args.x_stride_bytes != 0 ? args.x_stride_bytes : args.row_bytes;
  const int64_t y_stride = args.y_stride_bytes != 0 ? args.y_stride_bytes : args.row_bytes;
  Run(stream, IsSmall({args.rows, args.row_bytes, 2}), [&](int part, int parts) {
    const Range mine = PartOf(args.rows, part, parts);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const int64_t from = args.x_map != nullptr ? args.x_map[i] : i;
      const int64_t to = args.y_map != nullptr ? args.y_map[i] : i;
      if (from < 0 || to < 0) continue;
      std::memcpy(
          args.y_list != nullptr ? args.y_list[to] : static_cast<char*>(args.y) + to * y_stride,
          args.x_list != nullptr ? args.x_list[from]
                                 : static_cast<const char*>(args.x) + from * x_stride,
          static_cast<size_t>(args.row_bytes));
    }
  });
}

void PackFp8Cpu(const Stream& stream, const PackFp8Args& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.hidden, kMove}),
      [&](int part, int parts) { table.pack_fp8(args, part, parts); });
}

void UnpackFp8Cpu(const Stream& stream, const UnpackFp8Args& args) {
  const CpuTable& table = TableOf(stream.isa);
  Run(stream, IsSmall({args.rows, args.hidden, kMove}),
      [&](int part, int parts) { table.unpack_fp8(args, part, parts); });
}

}  // namespace janus::kernels
