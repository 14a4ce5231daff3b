#include "kernels/device/cuda_flags.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/device/cuda_driver.h"
#include "kernels/device/cuda_host_pages.h"

namespace janus::kernels {
namespace {

struct Driver : CudaDriver {
  decltype(&cuStreamBatchMemOp) batch = nullptr;

  static const Driver& Get() {
    static const Driver driver = [] {
      Driver d;
      d.Find("cuStreamBatchMemOp", d.batch);
      return d;
    }();
    return driver;
  }
};

// Unlike the runtime, the driver does not bind a thread to a device.
Status Bind(int device) {
  thread_local int bound = -1;
  if (bound == device) return OkStatus();
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
    cudaGetLastError();
    return Internal(std::string("device: ") + cudaGetErrorName(error));
  }
  bound = device;
  return OkStatus();
}

// On GPUs that report that they can flush, a write that reached the GPU before its flag may become
// visible after the flag. Other GPUs keep the order.
unsigned int WaitFlags(int device) {
  static const bool flushes =
      Driver::Get().Has(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, device);
  constexpr unsigned int kReached = CU_STREAM_WAIT_VALUE_GEQ;
  return flushes ? kReached | CU_STREAM_WAIT_VALUE_FLUSH : kReached;
}

CUstreamBatchMemOpParams WaitOf(CUdeviceptr address, uint64_t count, int device) {
  CUstreamBatchMemOpParams operation = {};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operation.waitValue.address = address;
  operation.waitValue.value64 = count;
  operation.waitValue.flags = WaitFlags(device);
  return operation;
}

CUstreamBatchMemOpParams WriteOf(CUdeviceptr address, uint64_t count, int) {
  CUstreamBatchMemOpParams operation = {};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operation.writeValue.address = address;
  operation.writeValue.value64 = count;
  operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return operation;
}

// In calls of at most as many operations as one call takes.
template <class ToOperation>
Status QueueAll(CUstream_st* stream, int device, std::span<const FlagCount> flags,
                const std::string& what, ToOperation to_operation) {
  constexpr size_t kMost = 255;
  std::array<CUstreamBatchMemOpParams, kMost> operations;
  while (!flags.empty()) {
    const size_t some = std::min(flags.size(), kMost);
    for (size_t i = 0; i < some; ++i) {
      JANUS_ASSIGN_OR_RETURN(const uint64_t address,
                             CudaHostPages().DeviceAddressOf(flags[i].flag));
      operations[i] = to_operation(address, flags[i].count, device);
    }
    const CUresult result =
        Driver::Get().batch(stream, static_cast<unsigned int>(some), operations.data(), 0);
    if (result != CUDA_SUCCESS) return Internal(what + ": " + Driver::Get().NameOf(result));
    flags = flags.subspan(some);
  }
  return OkStatus();
}

}  // namespace

Status CudaFlags::Register(std::byte* begin, size_t bytes) {
  const Driver& driver = Driver::Get();
  if (!driver.missing.empty()) {
    return FailedPrecondition("this driver's streams take no flags: it has no " + driver.missing);
  }
  JANUS_RETURN_IF_ERROR(Bind(device_));
  if (!driver.Has(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device_)) {
    return FailedPrecondition("this GPU's streams take no flags of 64 bits");
  }
  return CudaHostPages().Use(begin, bytes);
}

void CudaFlags::Unregister(std::byte* begin, size_t bytes) {
  CudaHostPages().Drop(begin, bytes);
}

Status CudaFlags::Signal(CUstream_st* stream, std::span<const FlagCount> flags) {
  JANUS_RETURN_IF_ERROR(Bind(device_));
  return QueueAll(stream, device_, flags, "flags, signalled", WriteOf);
}

Status CudaFlags::StreamWait(CUstream_st* stream, std::span<const FlagCount> flags) {
  JANUS_RETURN_IF_ERROR(Bind(device_));
  return QueueAll(stream, device_, flags, "flags, awaited", WaitOf);
}

}  // namespace janus::kernels
