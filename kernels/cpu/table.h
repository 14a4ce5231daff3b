#pragma once

#include "kernels/kernels.h"

namespace janus::kernels {

// One instruction set's kernels. Each function does the work of one part of a team on valid
// arguments; functions of one operation that are numbered run one after the other.
struct CpuTable {
  void (*embed)(const EmbedArgs&, int part, int parts);
  void (*rms_norm)(const RmsNormArgs&, int part, int parts);
  void (*linear)(const LinearArgs&, int part, int parts);
  void (*pointwise)(const PointwiseArgs&, int part, int parts);
  void (*scale_by_position)(const ScaleByPositionArgs&, int part, int parts);
  void (*rope)(const RopeArgs&, int part, int parts);
  void (*kv_write)(const KvWriteArgs&, int part, int parts);
  void (*paged_attention)(const PagedAttentionArgs&, int part, int parts);
  // The form for few rows with long contexts: its workspace (0 where it does not pay), then 1
  // computes splits, 2 merges them.
  int64_t (*paged_attention_split_bytes)(const PagedAttentionArgs&, int parts);
  void (*paged_attention_split_1)(const PagedAttentionArgs&, int part, int parts);
  void (*paged_attention_split_2)(const PagedAttentionArgs&, int part, int parts);
  void (*latent_write)(const LatentWriteArgs&, int part, int parts);
  void (*head_linear)(const HeadLinearArgs&, int part, int parts);
  void (*absorbed_attention)(const AbsorbedAttentionArgs&, int part, int parts);
  void (*expanded_attention)(const ExpandedAttentionArgs&, int part, int parts);
  void (*gate_top_k_1)(const GateTopKArgs&, int part, int parts);
  void (*gate_top_k_2)(const GateTopKArgs&, int part, int parts);
  void (*grouped_expert_ffn_1)(const GroupedExpertFfnArgs&, int64_t h_row_bytes, int part,
                               int parts);
  void (*grouped_expert_ffn_2)(const GroupedExpertFfnArgs&, int64_t h_row_bytes, int part,
                               int parts);
  void (*combine_slots)(const CombineSlotsArgs&, int part, int parts);
  void (*add_terms)(const AddTermsArgs&, int part, int parts);
  void (*combine_sums)(const CombineSumsArgs&, int part, int parts);
  void (*pack_fp8)(const PackFp8Args&, int part, int parts);
  void (*unpack_fp8)(const UnpackFp8Args&, int part, int parts);
  // The functions of vectors.h.
  void (*exp)(const float* x, float shift, float scale, float* p, int64_t count);
  float (*largest)(const float* x, int64_t count);
  void (*cos_sin)(const float* x, float* cos, float* sin, int64_t count);
};

extern const CpuTable kAvx2Table;
extern const CpuTable kAvx512Table;
extern const CpuTable kAvx512Bf16Table;

// The table of an instruction set; the caller made sure by SelectIsa that this CPU has it.
inline const CpuTable& TableOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return kAvx512Table;
    case Isa::kAvx512Bf16:
      return kAvx512Bf16Table;
    case Isa::kAvx2:
      break;
  }
  return kAvx2Table;
}

}  // namespace janus::kernels
