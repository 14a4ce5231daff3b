// For a build without CUDA.

#include "kernels/device/cuda_context.h"

namespace janus::kernels {

Result<std::unique_ptr<Context>> MakeCudaContext() {
  return Unimplemented("this build has no CUDA");
}

}  // namespace janus::kernels
