// Of a build without CUDA.

#include "kernels/device/cuda_context.h"

namespace janus::kernels {

Result<std::unique_ptr<Context>> MakeCudaContext() {
  return Unimplemented("this build has no CUDA; use device CPU or a build with CUDA");
}

}  // namespace janus::kernels
