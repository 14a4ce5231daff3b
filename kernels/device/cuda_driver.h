#pragma once

// The driver's functions, found at run time, because only machines with a GPU have a driver.

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

namespace janus::kernels {

// Each file that calls the driver adds its functions to this.
struct CudaDriver {
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  std::string missing;  // the first that was not found

  CudaDriver() {
    Find("cuDeviceGetAttribute", attribute);
    Find("cuGetErrorName", error_name);
  }

  template <class Function>
  void Find(const char* name, Function& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned int kVersion = 12000;  // as drivers from 12.0 on have them
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
      cudaGetLastError();
      if (missing.empty()) missing = name;
      return;
    }
    function = reinterpret_cast<Function>(found);
  }

  bool Has(CUdevice_attribute wanted, int device) const {
    int has = 0;
    return attribute(&has, wanted, device) == CUDA_SUCCESS && has != 0;
  }
  std::string NameOf(CUresult result) const {
    const char* name = nullptr;
    if (error_name(result, &name) != CUDA_SUCCESS || name == nullptr) {
      return "CUDA error " + std::to_string(static_cast<int>(result));
    }
    return name;
  }
};

}  // namespace janus::kernels
