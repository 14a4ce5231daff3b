#include "kernels/cuda/attention.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

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
