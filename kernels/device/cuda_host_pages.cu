#include "kernels/device/cuda_host_pages.h"

#include <cuda_runtime.h>
#include <unistd.h>

#include <string>

namespace janus::kernels {
namespace {

// The process's GPU reaches each page for all of its contexts.
class CudaPages final : public RegisteredPages::Driver {
 public:
  Status Register(std::byte* pages, size_t bytes) override {
    const cudaError_t error =
        cudaHostRegister(pages, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error == cudaSuccess) return OkStatus();
    cudaGetLastError();  // or the next launch would tell it
    const std::string words = std::string("memory of the host: ") + cudaGetErrorName(error) + ", " +
                              cudaGetErrorString(error);
    return error == cudaErrorHostMemoryAlreadyRegistered ? AlreadyExists(words)
                                                         : FailedPrecondition(words);
  }
  void Unregister(std::byte* pages) override {
    if (cudaHostUnregister(pages) != cudaSuccess) cudaGetLastError();
  }
  // The host's own where addresses are unified, as long as somebody asks.
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
  static RegisteredPages& pages =
      *new RegisteredPages(*new CudaPages, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  return pages;
}

}  // namespace janus::kernels
