#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace janus::kernels {

// A GPU of this machine that CUDA_VISIBLE_DEVICES leaves.
struct CudaDevice {
  std::string id;    // for CUDA_VISIBLE_DEVICES: "GPU-8a5c..."
  std::string name;  // "NVIDIA H200"
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // beside a CUDA context of this process
};

// In the order of CUDA's numbers. For a process that ends soon: it makes a context on each GPU.
// Unimplemented: this build has no CUDA. Unavailable: there is none, in the runtime's words.
Result<std::vector<CudaDevice>> FindCudaDevices();

}  // namespace janus::kernels
