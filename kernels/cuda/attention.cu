#include "kernels/cuda/attention.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status ExpandedAttentionCuda(const Stream& stream, const ExpandedAttentionArgs& args) {
  return cuda::Start("ExpandedAttention", stream,
                     cuda::ExpandedAttentionKernel{args, cuda::ExpandedAreaFloats(args)},
                     cuda::PlanExpandedAttention(args));
}

}  // namespace janus::kernels
