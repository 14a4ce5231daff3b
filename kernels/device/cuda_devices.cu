#include "kernels/device/cuda_devices.h"

#include <cuda_runtime.h>

#include <cstdio>

#include "kernels/device/cuda_context.h"

namespace janus::kernels {
namespace {

// As nvidia-smi has it.
std::string IdOf(const cudaDeviceProp& properties) {
  const bool is_slice = std::string(properties.name).find("MIG") != std::string::npos;
  std::string out = is_slice ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += hex;
  }
  return out;
}

}  // namespace

Result<std::vector<CudaDevice>> FindCudaDevices() {
  PrepareCudaEnvironment();
  const auto refuse = [](cudaError_t error) {
    return Unavailable(std::string("no GPU that can be used: ") + cudaGetErrorName(error) + ", " +
                       cudaGetErrorString(error));
  };
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return refuse(error);
  }
  std::vector<CudaDevice> out;
  cudaError_t last = cudaErrorNoDevice;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    size_t free = 0, total = 0;
    last = cudaGetDeviceProperties(&properties, device);
    if (last == cudaSuccess) last = cudaSetDevice(device);
    if (last == cudaSuccess) last = cudaMemGetInfo(&free, &total);
    if (last != cudaSuccess) continue;  // one that is broken, or another's alone
    out.push_back({IdOf(properties), properties.name, total, free});
  }
  if (out.empty()) return refuse(last);
  return out;
}

}  // namespace janus::kernels
