// For a build without CUDA.

#include "kernels/device/cuda_context.h"
#include "kernels/device/cuda_devices.h"

namespace janus::kernels {

Result<std::unique_ptr<Context>> MakeCudaContext() {
  return Unimplemented("this build has no CUDA");
}

Result<std::vector<CudaDevice>> FindCudaDevices() {
  return Unimplemented("this build has no CUDA");
}

}  // namespace janus::kernels
