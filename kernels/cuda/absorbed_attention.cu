// Attention in the latent space: its forms, and which of them runs.

#include "kernels/cuda/absorbed_attention.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cuda/absorbed_fast.h"
#include "kernels/cuda/absorbed_wgmma.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

constexpr std::string_view kName = "AbsorbedAttention";

// Rows of a launch at a time. plan(args, states) is the launch of Kernel over them.
template <class Kernel, class PlanOf>
Status RunTasks(const Stream& stream, const AbsorbedAttentionArgs& args, PlanOf plan) {
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
    JANUS_RETURN_IF_ERROR(Start(kName, stream, Kernel{part, states}, plan(part, states)));
    if (states == 0) continue;
    const MergedRows merged = MergedRowsOf(part, states);
    JANUS_RETURN_IF_ERROR(
        Start(kName, stream, MergeAttentionKernel{merged}, PlanMergeAttention(merged)));
  }
  return OkStatus();
}

template <int kBits>
Status RunForm(const Stream& stream, const AbsorbedAttentionArgs& args, AbsorbedForm form) {
  return form == AbsorbedForm::kWgmma
             ? RunTasks<WgmmaAbsorbedKernel<kBits>>(stream, args, PlanWgmmaAbsorbed<kBits>)
             : RunTasks<FastAbsorbedKernel<kBits>>(stream, args, PlanFastAbsorbed<kBits>);
}

}  // namespace

Status RunAbsorbedAttention(const Stream& stream, const AbsorbedAttentionArgs& args,
                            AbsorbedForm form) {
  if (form == AbsorbedForm::kPlain) {
    return Start(kName, stream, AbsorbedAttentionKernel{args}, PlanAbsorbedAttention(args));
  }
  return args.cache.dtype == DType::kFloat8E4M3 ? RunForm<8>(stream, args, form)
                                                : RunForm<16>(stream, args, form);
}

}  // namespace cuda

Status AbsorbedAttentionCuda(const Stream& stream, const AbsorbedAttentionArgs& args) {
  const bool fits = cuda::DeviceHasSharedBytes(
      args.cache.dtype == DType::kFloat8E4M3 ? cuda::FastAbsorbedKernel<8>::kAskedSharedBytes
                                             : cuda::FastAbsorbedKernel<16>::kAskedSharedBytes);
  return cuda::RunAbsorbedAttention(
      stream, args,
      fits ? cuda::AbsorbedFormFor(args, cuda::DeviceHasWgmma()) : cuda::AbsorbedForm::kPlain);
}

}  // namespace janus::kernels
