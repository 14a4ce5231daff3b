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

}  // namespace janus::kernels
