// Attention over paged keys and values: its two forms, and which of them runs.

#include "kernels/cuda/paged_attention.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_fast.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

constexpr std::string_view kName = "PagedAttention";

template <int kHeadDim, int kBits>
Status RunFast(const Stream& stream, const PagedAttentionArgs& args) {
  const int64_t states =
      args.workspace_bytes / (SplitStates{args.heads, kHeadDim}.Floats() * int64_t{4});
  PagedAttentionArgs part = args;
  for (int64_t first = 0; first < args.num_rows; first += kTaskRows) {
    part.num_rows = std::min<int64_t>(args.num_rows - first, kTaskRows);
    part.rows = args.rows + first;
    const int64_t row = int64_t{args.heads} * kHeadDim;
    part.queries = args.queries + first * (args.query_stride != 0 ? args.query_stride : row);
    part.y = static_cast<char*>(args.y) +
             first * (args.y_stride != 0 ? args.y_stride : row) * SizeOf(args.y_dtype);
    JANUS_RETURN_IF_ERROR(Start(kName, stream, FastAttentionKernel<kHeadDim, kBits>{part, states},
                                PlanFastAttention<kHeadDim, kBits>(part, states)));
    if (states == 0) continue;
    const MergedRows merged = MergedRowsOf(part, states);
    JANUS_RETURN_IF_ERROR(
        Start(kName, stream, MergeAttentionKernel{merged}, PlanMergeAttention(merged)));
  }
  return OkStatus();
}

template <int kHeadDim>
Status RunFast(const Stream& stream, const PagedAttentionArgs& args) {
  return args.cache.dtype == DType::kFloat8E4M3 ? RunFast<kHeadDim, 8>(stream, args)
                                                : RunFast<kHeadDim, 16>(stream, args);
}

}  // namespace

Status RunPagedAttention(const Stream& stream, const PagedAttentionArgs& args, AttentionForm form) {
  if (form == AttentionForm::kPlain) {
    return Start(kName, stream, PagedAttentionKernel{args}, PlanPagedAttention(args));
  }
  switch (args.cache.head_dim) {
    case 64:
      return RunFast<64>(stream, args);
    case 128:
      return RunFast<128>(stream, args);
    default:
      return RunFast<256>(stream, args);
  }
}

}  // namespace cuda

Status PagedAttentionCuda(const Stream& stream, const PagedAttentionArgs& args) {
  return cuda::RunPagedAttention(stream, args, cuda::AttentionFormFor(args));
}

}  // namespace janus::kernels
