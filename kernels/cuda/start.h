#pragma once

// Starts a kernel: on the stream's GPU where nvcc compiles this, else on this thread.
//
// It only launches, without an allocation, a copy or a wait. Arguments are passed by value, so what
// they point to must live until the stream has run the operation. Pointers are the device's.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/plan.h"
#include "kernels/stream.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include <atomic>
#else
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>

#include "kernels/cuda/host_reach.h"
#endif

namespace janus::kernels::cuda {

inline Status RefusePlan(std::string_view operation, const Plan& plan) {
  return InvalidArgument(std::string(operation) + ": " + std::to_string(plan.blocks) +
                         " blocks of " + std::to_string(plan.threads) + " threads and " +
                         std::to_string(plan.shared_bytes) +
                         " bytes of shared memory are more than a launch takes; give fewer rows");
}

// The most shared memory that a block of the kernel may have: what every block has, or what the
// kernel names as kAskedSharedBytes.
template <class Kernel>
constexpr int64_t SharedBytesOf() {
  if constexpr (requires { Kernel::kAskedSharedBytes; }) {
    static_assert(Kernel::kAskedSharedBytes <= kMostSharedBytes);
    return Kernel::kAskedSharedBytes;
  }
  return kMaxSharedBytes;
}

#ifdef __CUDACC__

// The compiler leaves enough registers for so many blocks on a multiprocessor; 0: it decides.
template <class Kernel>
constexpr int BlocksAtOnce() {
  if constexpr (requires { Kernel::kBlocksAtOnce; }) return Kernel::kBlocksAtOnce;
  return 0;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, BlocksAtOnce<Kernel>())
    Run(const Kernel kernel, int64_t blocks) {
  DeviceBlock block(blocks);
  kernel(block);
}

// Whether a block may have so much shared memory on this process's GPU.
inline bool DeviceHasSharedBytes(int64_t bytes) {
  static const int most = [] {
    int device = 0;
    int has = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&has, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess) {
      cudaGetLastError();  // the launch will tell
      return static_cast<int>(kMostSharedBytes);
    }
    return has;
  }();
  return bytes <= most;
}

// Whether kernels with wgmma run on this process's GPU: the GPU is sm_90 and the build was compiled
// for sm_90a (cmake/JanusCuda.cmake). No other architecture has these instructions. The numerics
// class names sm_90a (kernels/device/cuda_context.cu), because the choice of a form depends on it.
inline bool DeviceHasWgmma() {
#ifdef JANUS_CUDA_SM_90A
  static const bool has = [] {
    int device = 0;
    int major = 0;
    int minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
      cudaGetLastError();  // the launch will tell
      return false;
    }
    return major == 9 && minor == 0;
  }();
  return has;
#else
  return false;
#endif
}

// Multiprocessors of this process's GPU.
inline int64_t DeviceMultiprocessors() {
  static const int64_t has = [] {
    int device = 0;
    int multiprocessors = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess) {
      cudaGetLastError();  // the launch will tell
      return 1;
    }
    return multiprocessors;
  }();
  return has;
}

inline Status LaunchFailure(std::string_view operation, cudaError_t error) {
  const std::string what =
      std::string(operation) + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error);
  // Kernels are loaded as they are first asked for, which takes memory.
  return error == cudaErrorMemoryAllocation ? ResourceExhausted(what) : Internal(what);
}

// Asks until the first success, because a process computes on one GPU. Little is left for the L1
// cache, which these kernels do not need.
template <class Kernel>
cudaError_t AskForSharedMemory() {
  if constexpr (SharedBytesOf<Kernel>() > kMaxSharedBytes) {
    static std::atomic<bool> is_granted{false};
    if (is_granted.load(std::memory_order_acquire)) return cudaSuccess;
    cudaError_t error =
        cudaFuncSetAttribute(Run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(SharedBytesOf<Kernel>()));
    if (error == cudaSuccess) {
      error = cudaFuncSetAttribute(Run<Kernel>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared);
    }
    is_granted.store(error == cudaSuccess, std::memory_order_release);
    return error;
  }
  return cudaSuccess;
}

// InvalidArgument for a plan that no GPU takes, ResourceExhausted or Internal with the runtime's
// words if the launch is refused. A fault of the kernel shows at the caller's next wait for the
// stream.
template <class Kernel>
Status Start(std::string_view operation, const Stream& stream, const Kernel& kernel,
             const Plan& plan) {
  if (plan.blocks == 0) return OkStatus();
  if (!CanLaunch(plan, SharedBytesOf<Kernel>())) return RefusePlan(operation, plan);
  cudaError_t error = AskForSharedMemory<Kernel>();
  if (error != cudaSuccess) {
    cudaGetLastError();  // or the next launch would tell it
    return LaunchFailure(operation, error);
  }
  Run<Kernel><<<static_cast<unsigned>(plan.blocks), static_cast<unsigned>(plan.threads),
                static_cast<size_t>(plan.shared_bytes), static_cast<cudaStream_t>(stream.native)>>>(
      kernel, plan.blocks);
  error = cudaGetLastError();
  return error == cudaSuccess ? OkStatus() : LaunchFailure(operation, error);
}

#else

// The GPU that the host form emulates is an sm_90a.
inline bool DeviceHasSharedBytes(int64_t bytes) {
  return bytes <= kMostSharedBytes;
}
inline bool DeviceHasWgmma() {
  return true;
}
inline int64_t DeviceMultiprocessors() {
  return 132;  // of an H100 or H200 with SXM
}

// The seed from which the next launches of this thread draw their orders.
inline thread_local uint64_t host_order_seed = 1;

// A device that the host emulates, as Stream::native. It is called for every launch, and opens its
// memory while one runs.
class PlayedDevice {
 public:
  virtual ~PlayedDevice() = default;
  // The kernel with its arguments, as the launch has them, with cleared padding; no bytes if the
  // compiler cannot clear it. After an error there is no launch.
  virtual Status BeginLaunch(std::string_view operation, const void* kernel, size_t bytes) = 0;
  virtual void EndLaunch() = 0;
  // For a stream that records: launches are kept, and started later on other streams.
  using Launch = std::function<Status(const Stream&)>;
  virtual bool records() const { return false; }
  virtual void Keep(Launch) {}
};

// Without an emulated device, arguments that a GPU could not read are refused (host_reach.h); an
// emulated device checks its own memory. Blocks run forwards or backwards. Each has shared memory
// of exactly the planned size, filled with bytes that are NaN as floats.
template <class Kernel>
Status Start(std::string_view operation, const Stream& stream, const Kernel& kernel,
             const Plan& plan) {
  if (plan.blocks == 0) return OkStatus();
  if (!CanLaunch(plan, SharedBytesOf<Kernel>())) return RefusePlan(operation, plan);
  auto* const device = static_cast<PlayedDevice*>(stream.native);
  if (device != nullptr && device->records()) {
    device->Keep([name = std::string(operation), kernel, plan](const Stream& on) {
      return Start(name, on, kernel, plan);
    });
    return OkStatus();
  }
#if __has_builtin(__builtin_clear_padding)
  Kernel shown = kernel;
  __builtin_clear_padding(&shown);
  const size_t shown_bytes = sizeof shown;
#else
  const Kernel& shown = kernel;
  const size_t shown_bytes = 0;
#endif
  if (device != nullptr) {
    JANUS_RETURN_IF_ERROR(device->BeginLaunch(operation, &shown, shown_bytes));
  } else if (stream.device == Device::kCuda) {
    JANUS_RETURN_IF_ERROR(RefuseWhatNoGpuReads(operation, &shown, shown_bytes));
  }
  const auto bytes = static_cast<size_t>(plan.shared_bytes);
  const auto give_back = [](unsigned char* memory) {
    ::operator delete[](memory, std::align_val_t{kSharedAlignment});
  };
  const bool backwards = host_order_seed % 2 == 0;
  const uint64_t seed = host_order_seed / 2;
  HostBlocks::Run(plan.blocks, plan.threads, seed, [&](int64_t i, const HostThreads& seen) {
    const std::unique_ptr<unsigned char[], decltype(give_back)> shared(
        new (std::align_val_t{kSharedAlignment}) unsigned char[bytes], give_back);
    std::memset(shared.get(), 0xFF, bytes);
    const int64_t index = backwards ? plan.blocks - 1 - i : i;
    HostBlock block(index, plan.blocks, plan.threads, shared.get(), plan.shared_bytes,
                    host_order_seed * 1000003 + static_cast<uint64_t>(index) + 1, seen);
    kernel(block);
  });
  if (device != nullptr) device->EndLaunch();
  return OkStatus();
}

#endif

}  // namespace janus::kernels::cuda
