#include "kernels/device/cuda_shared_memory.h"

#include <string>
#include <utility>

#include "kernels/device/cuda_driver.h"

namespace janus::kernels {
namespace {

constexpr auto kHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

struct Driver : CudaDriver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemExportToShareableHandle) to_descriptor = nullptr;
  decltype(&cuMemImportFromShareableHandle) from_descriptor = nullptr;

  static const Driver& Get() {
    static const Driver driver = [] {
      Driver d;
      d.Find("cuMemGetAllocationGranularity", d.granularity);
      d.Find("cuMemCreate", d.create);
      d.Find("cuMemRelease", d.release);
      d.Find("cuMemAddressReserve", d.reserve);
      d.Find("cuMemAddressFree", d.free);
      d.Find("cuMemMap", d.map);
      d.Find("cuMemUnmap", d.unmap);
      d.Find("cuMemSetAccess", d.set_access);
      d.Find("cuMemExportToShareableHandle", d.to_descriptor);
      d.Find("cuMemImportFromShareableHandle", d.from_descriptor);
      return d;
    }();
    return driver;
  }
};

std::string NameOf(CUresult result) {
  return Driver::Get().NameOf(result);
}

constexpr auto kReachedByNetwork = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;

CUmemAllocationProp PropertiesOf(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = kHandleType;
  properties.allocFlags.gpuDirectRDMACapable = Driver::Get().Has(kReachedByNetwork, device) ? 1 : 0;
  return properties;
}

// The runtime binds the thread to its device at the first call.
Status Ready(int device) {
  const Driver& driver = Driver::Get();
  if (!driver.missing.empty()) {
    return FailedPrecondition("this driver shares no memory of a GPU: it has no " + driver.missing);
  }
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
    cudaGetLastError();
    return Internal(std::string("device: ") + cudaGetErrorName(error));
  }
  for (const CUdevice_attribute wanted :
       {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    if (!driver.Has(wanted, device)) {
      return FailedPrecondition("this GPU shares no memory by file descriptors");
    }
  }
  return OkStatus();
}

Result<size_t> Rounded(int device, size_t bytes) {
  const CUmemAllocationProp properties = PropertiesOf(device);
  size_t page = 0;
  const CUresult result =
      Driver::Get().granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) return Internal("pages of the device: " + NameOf(result));
  return (bytes + page - 1) / page * page;
}

// Holds a piece of physical memory.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (is_held) Driver::Get().release(value);
  }
  CUmemGenericAllocationHandle value = 0;
  bool is_held = false;
};

// Maps it at a new address, for operations of `device`. The mapping keeps the memory alive.
Result<std::byte*> MapHandle(int device, const Handle& handle, size_t bytes) {
  const Driver& driver = Driver::Get();
  CUdeviceptr at = 0;
  if (const CUresult result = driver.reserve(&at, bytes, 0, 0, 0); result != CUDA_SUCCESS) {
    return ResourceExhausted("addresses for shared memory: " + NameOf(result));
  }
  if (const CUresult result = driver.map(at, bytes, 0, handle.value, 0); result != CUDA_SUCCESS) {
    driver.free(at, bytes);
    return InvalidArgument("shared memory of " + std::to_string(bytes) +
                           " bytes cannot be mapped: " + NameOf(result));
  }
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (const CUresult result = driver.set_access(at, bytes, &access, 1); result != CUDA_SUCCESS) {
    driver.unmap(at, bytes);
    driver.free(at, bytes);
    return FailedPrecondition("this GPU does not reach the other's memory: " + NameOf(result));
  }
  return reinterpret_cast<std::byte*>(at);
}

}  // namespace

Result<std::byte*> CudaSharedMemory::Allocate(size_t bytes, Fd& fd) {
  JANUS_RETURN_IF_ERROR(Ready(device_));
  JANUS_ASSIGN_OR_RETURN(const size_t rounded, Rounded(device_, bytes));
  const CUmemAllocationProp properties = PropertiesOf(device_);
  Handle handle;
  if (const CUresult result = Driver::Get().create(&handle.value, rounded, &properties, 0);
      result != CUDA_SUCCESS) {
    const std::string words =
        std::to_string(rounded) + " bytes of shared device memory: " + NameOf(result);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? ResourceExhausted(words)
                                              : FailedPrecondition(words);
  }
  handle.is_held = true;
  int descriptor = -1;
  if (const CUresult result =
          Driver::Get().to_descriptor(&descriptor, handle.value, kHandleType, 0);
      result != CUDA_SUCCESS) {
    return FailedPrecondition("shared device memory has no descriptor: " + NameOf(result));
  }
  fd = Fd(descriptor);
  return MapHandle(device_, handle, rounded);
}

Result<std::byte*> CudaSharedMemory::Map(const Fd& fd, size_t bytes) {
  JANUS_RETURN_IF_ERROR(Ready(device_));
  JANUS_ASSIGN_OR_RETURN(const size_t rounded, Rounded(device_, bytes));
  Handle handle;
  void* const descriptor = reinterpret_cast<void*>(static_cast<intptr_t>(fd.get()));
  if (const CUresult result = Driver::Get().from_descriptor(&handle.value, descriptor, kHandleType);
      result != CUDA_SUCCESS) {
    return InvalidArgument("no shared device memory of a GPU here: " + NameOf(result));
  }
  handle.is_held = true;
  return MapHandle(device_, handle, rounded);
}

Status CudaSharedMemory::CheckNetwork() const {
  JANUS_RETURN_IF_ERROR(Ready(device_));
  if (!Driver::Get().Has(kReachedByNetwork, device_)) {
    return FailedPrecondition("network devices do not reach this GPU's memory (GPUDirect RDMA)");
  }
  return OkStatus();
}

void CudaSharedMemory::Unmap(std::byte* data, size_t bytes) {
  const Result<size_t> rounded = Rounded(device_, bytes);
  if (!rounded.ok()) return;  // the driver is gone with the process
  const auto at = reinterpret_cast<CUdeviceptr>(data);
  Driver::Get().unmap(at, *rounded);
  Driver::Get().free(at, *rounded);
}

}  // namespace janus::kernels
