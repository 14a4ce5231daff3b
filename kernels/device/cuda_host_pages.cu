#include "kernels/device/cuda_host_pages.h"

#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/device/cuda_driver.h"

namespace janus::kernels {
namespace {

size_t PageBytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

struct Pointers : CudaDriver {
  decltype(&cuPointerGetAttribute) of_pointer = nullptr;

  Pointers() { Find("cuPointerGetAttribute", of_pointer); }
};
const Pointers& TheDriver() {
  static const Pointers driver;
  return driver;
}

// A page that is registered once is reached by all contexts of the process on the GPU.
class CudaPages final : public RegisteredPages::Driver {
 public:
  Status Register(std::byte* pages, size_t bytes) override {
    const cudaError_t error =
        cudaHostRegister(pages, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error == cudaSuccess) return OkStatus();
    cudaGetLastError();  // else the next launch would report it
    const std::string words = std::string("memory of the host: ") + cudaGetErrorName(error) + ", " +
                              cudaGetErrorString(error);
    return error == cudaErrorHostMemoryAlreadyRegistered ? AlreadyExists(words)
                                                         : FailedPrecondition(words);
  }
  void Unregister(std::byte* pages) override {
    if (cudaHostUnregister(pages) != cudaSuccess) cudaGetLastError();
  }
  // Libraries register large ranges at once, as UCX does with memory that it sends from. If the
  // driver does not know the range, only the page counts.
  std::byte* EndOfOthers(std::byte* page) override {
    std::byte* const behind = page + PageBytes();
    const Pointers& driver = TheDriver();
    if (!driver.missing.empty()) return behind;
    const auto at = reinterpret_cast<CUdeviceptr>(page);
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    if (driver.of_pointer(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) != CUDA_SUCCESS ||
        driver.of_pointer(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) != CUDA_SUCCESS) {
      return behind;
    }
    // Whole pages, because the range may end within one.
    return std::max(behind, reinterpret_cast<std::byte*>((begin + bytes) & ~(PageBytes() - 1)));
  }
  // With unified addresses the driver returns the host's own address.
  Result<uint64_t> DeviceAddressOf(std::byte* pages) override {
    void* address = nullptr;
    if (const cudaError_t error = cudaHostGetDevicePointer(&address, pages, 0);
        error != cudaSuccess) {
      cudaGetLastError();
      return FailedPrecondition(std::string("the GPU does not reach the memory of the host: ") +
                                cudaGetErrorName(error));
    }
    return reinterpret_cast<uint64_t>(address);
  }
};

}  // namespace

// Never destroyed: contexts may be statics.
RegisteredPages& CudaHostPages() {
  static RegisteredPages& pages = *new RegisteredPages(*new CudaPages, PageBytes());
  return pages;
}

}  // namespace janus::kernels
