#include "kernels/cuda/sample.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status SampleCuda(const Stream& stream, const SampleArgs& args) {
  return cuda::Start("Sample", stream, cuda::SampleKernel{args}, cuda::PlanSample(args));
}

}  // namespace janus::kernels
