// Projections: their two forms, and which of them runs.

#include "kernels/cuda/linear.h"

#include "kernels/backends.h"
#include "kernels/cuda/linear_fast.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

template <int kOutputs>
Status RunFast(const Stream& stream, const LinearArgs& args) {
  return Start("Linear", stream, FastLinearKernel<kOutputs>{{}, args},
               PlanFastLinear<kOutputs>(args));
}

template <bool kIsTransposed>
Status RunFast(const Stream& stream, const HeadLinearArgs& args) {
  return Start("HeadLinear", stream, FastHeadLinearKernel<kIsTransposed>{{}, args},
               PlanFastHeadLinear<kIsTransposed>(args));
}

}  // namespace

Status RunLinear(const Stream& stream, const LinearArgs& args, LinearForm form) {
  if (form == LinearForm::kPlain) {
    return Start("Linear", stream, LinearKernel{args}, PlanLinear(args));
  }
  switch (FastLinearOutputs(args)) {
    case 16:
      return RunFast<16>(stream, args);
    case 32:
      return RunFast<32>(stream, args);
    default:
      return RunFast<64>(stream, args);
  }
}

Status RunHeadLinear(const Stream& stream, const HeadLinearArgs& args, LinearForm form) {
  if (form == LinearForm::kPlain) {
    return Start("HeadLinear", stream, HeadLinearKernel{args}, PlanHeadLinear(args));
  }
  return args.transposed ? RunFast<true>(stream, args) : RunFast<false>(stream, args);
}

}  // namespace cuda

Status LinearCuda(const Stream& stream, const LinearArgs& args) {
  return cuda::RunLinear(stream, args, cuda::LinearFormFor(args));
}
Status HeadLinearCuda(const Stream& stream, const HeadLinearArgs& args) {
  return cuda::RunHeadLinear(stream, args, cuda::LinearFormFor(args));
}

}  // namespace janus::kernels
