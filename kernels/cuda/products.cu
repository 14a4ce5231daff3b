#include "kernels/cuda/products.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status GateTopKCuda(const Stream& stream, const GateTopKArgs& args) {
  JANUS_RETURN_IF_ERROR(
      cuda::Start("GateTopK", stream, cuda::GateLogitsKernel{args}, cuda::PlanGateLogits(args)));
  return cuda::Start("GateTopK", stream, cuda::GateChoiceKernel{args}, cuda::PlanGateChoice(args));
}

}  // namespace janus::kernels
