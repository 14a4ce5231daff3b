#include "kernels/cuda/products.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status LinearCuda(const Stream& stream, const LinearArgs& args) {
  return cuda::Start("Linear", stream, cuda::LinearKernel{args}, cuda::PlanLinear(args));
}
Status HeadLinearCuda(const Stream& stream, const HeadLinearArgs& args) {
  return cuda::Start("HeadLinear", stream, cuda::HeadLinearKernel{args},
                     cuda::PlanHeadLinear(args));
}
Status GateTopKCuda(const Stream& stream, const GateTopKArgs& args) {
  JANUS_RETURN_IF_ERROR(
      cuda::Start("GateTopK", stream, cuda::GateLogitsKernel{args}, cuda::PlanGateLogits(args)));
  return cuda::Start("GateTopK", stream, cuda::GateChoiceKernel{args}, cuda::PlanGateChoice(args));
}
Status GroupedExpertFfnCuda(const Stream& stream, const GroupedExpertFfnArgs& args) {
  const int64_t h_row_bytes =
      GroupedExpertFfnWorkspace::For(args.num_contributions, args.intermediate, args.row_dtype)
          .h_row_bytes;
  JANUS_RETURN_IF_ERROR(cuda::Start("GroupedExpertFfn", stream,
                                    cuda::ExpertUpKernel{args, h_row_bytes},
                                    cuda::PlanExpertUp(args)));
  return cuda::Start("GroupedExpertFfn", stream, cuda::ExpertDownKernel{args, h_row_bytes},
                     cuda::PlanExpertDown(args));
}

}  // namespace janus::kernels
