// Attention in the latent space: its two forms, and which of them runs.

#include "kernels/cuda/absorbed_attention.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cuda/absorbed_fast.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

constexpr std::string_view kName = "AbsorbedAttention";

template <int kBits>
Status RunFast(const Stream& stream, const AbsorbedAttentionArgs& args) {
  const int64_t states =
      args.workspace_bytes / (SplitStates{args.heads, kAbsorbedRank}.Floats() * int64_t{4});
  AbsorbedAttentionArgs part = args;
  const int64_t row = args.heads * kAbsorbedRank;
  for (int64_t first = 0; first < args.num_rows; first += kTaskRows) {
    part.num_rows = std::min<int64_t>(args.num_rows - first, kTaskRows);
    part.rows = args.rows + first;
    part.latent_queries = args.latent_queries + first * row;
    part.rope_queries = args.rope_queries + first * RopeQueries(args).row_stride;
    part.y = args.y + first * row;
    JANUS_RETURN_IF_ERROR(Start(kName, stream, FastAbsorbedKernel<kBits>{part, states},
                                PlanFastAbsorbed<kBits>(part, states)));
    if (states == 0) continue;
    const MergedRows merged = MergedRowsOf(part, states);
    JANUS_RETURN_IF_ERROR(
        Start(kName, stream, MergeAttentionKernel{merged}, PlanMergeAttention(merged)));
  }
  return OkStatus();
}

}  // namespace

Status RunAbsorbedAttention(const Stream& stream, const AbsorbedAttentionArgs& args,
                            AttentionForm form) {
  if (form == AttentionForm::kFast) {
    return args.cache.dtype == DType::kFloat8E4M3 ? RunFast<8>(stream, args)
                                                  : RunFast<16>(stream, args);
  }
  return Start(kName, stream, AbsorbedAttentionKernel{args}, PlanAbsorbedAttention(args));
}

}  // namespace cuda

Status AbsorbedAttentionCuda(const Stream& stream, const AbsorbedAttentionArgs& args) {
  const bool fits = cuda::DeviceHasSharedBytes(
      args.cache.dtype == DType::kFloat8E4M3 ? cuda::FastAbsorbedKernel<8>::kAskedSharedBytes
                                             : cuda::FastAbsorbedKernel<16>::kAskedSharedBytes);
  return cuda::RunAbsorbedAttention(
      stream, args, fits ? cuda::AbsorbedFormFor(args) : cuda::AttentionForm::kPlain);
}

}  // namespace janus::kernels
