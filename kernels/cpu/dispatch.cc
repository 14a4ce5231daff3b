// The CPU device: one team run per pass of an operation, on the stream's instruction set.

#include "kernels/backends.h"
#include "kernels/cpu/table.h"

namespace janus::kernels {

void EmbedCpu(const Stream& stream, const EmbedArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.embed(args, part, parts); });
}

void RmsNormCpu(const Stream& stream, const RmsNormArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.rms_norm(args, part, parts); });
}

void LinearCpu(const Stream& stream, const LinearArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.linear(args, part, parts); });
}

void RopeCpu(const Stream& stream, const RopeArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.rope(args, part, parts); });
}

void KvWriteCpu(const Stream& stream, const KvWriteArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.kv_write(args, part, parts); });
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
  team.Run([&](int part, int parts) { table.paged_attention(args, part, parts); });
}

void GateTopKCpu(const Stream& stream, const GateTopKArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.gate_top_k_1(args, part, parts); });
  stream.team->Run([&](int part, int parts) { table.gate_top_k_2(args, part, parts); });
}

void GroupedExpertFfnCpu(const Stream& stream, const GroupedExpertFfnArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  const int64_t h_row_bytes =
      GroupedExpertFfnWorkspace::For(args.num_contributions, args.intermediate, args.row_dtype)
          .h_row_bytes;
  stream.team->Run(
      [&](int part, int parts) { table.grouped_expert_ffn_1(args, h_row_bytes, part, parts); });
  stream.team->Run(
      [&](int part, int parts) { table.grouped_expert_ffn_2(args, h_row_bytes, part, parts); });
}

void CombineSlotsCpu(const Stream& stream, const CombineSlotsArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  stream.team->Run([&](int part, int parts) { table.combine_slots(args, part, parts); });
}

}  // namespace janus::kernels
