#include "kernels/cuda/attention.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status PagedAttentionCuda(const Stream& stream, const PagedAttentionArgs& args) {
  return cuda::Start("PagedAttention", stream, cuda::PagedAttentionKernel{args},
                     cuda::PlanPagedAttention(args));
}
Status AbsorbedAttentionCuda(const Stream& stream, const AbsorbedAttentionArgs& args) {
  return cuda::Start("AbsorbedAttention", stream, cuda::AbsorbedAttentionKernel{args},
                     cuda::PlanAbsorbedAttention(args));
}
Status ExpandedAttentionCuda(const Stream& stream, const ExpandedAttentionArgs& args) {
  return cuda::Start("ExpandedAttention", stream,
                     cuda::ExpandedAttentionKernel{args, cuda::ExpandedAreaFloats(args)},
                     cuda::PlanExpandedAttention(args));
}

}  // namespace janus::kernels
