#include "kernels/device/cuda_context.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "kernels/cuda/start.h"
#include "kernels/device/cuda_flags.h"
#include "kernels/device/cuda_host_pages.h"
#include "kernels/device/cuda_shared_memory.h"

namespace janus::kernels {
namespace {

Status Check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return OkStatus();
  cudaGetLastError();  // else this thread's next launch would report it, if it can be cleared
  const std::string words =
      what + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error);
  return error == cudaErrorMemoryAllocation ? ResourceExhausted(words) : Internal(words);
}

// Compiled for the build's architectures alone, as every kernel of this build is.
__global__ void CompiledLikeAll() {}

class CudaEvent final : public Event {
 public:
  CudaEvent() = default;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override {
    if (event != nullptr) cudaEventDestroy(event);
  }
  cudaEvent_t event = nullptr;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph() = default;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
  }
  cudaGraphExec_t exec = nullptr;
};

// The stream and graph of a recording. If recording fails, nothing of it is left.
struct Recording {
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  cudaStream_t stream = nullptr;  // its own: steps go on
  cudaGraph_t graph = nullptr;
};

// The runtime's errors if the build has no code for the GPU.
bool IsOfOtherArchitecture(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
         error == cudaErrorInvalidKernelImage || error == cudaErrorUnsupportedPtxVersion ||
         error == cudaErrorInvalidPtx || error == cudaErrorJitCompilationDisabled;
}

class CudaContext final : public Context {
 public:
  // The device is current on each thread that has not chosen another. No code here chooses one.
  Status Open() {
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
      return Unavailable(std::string("no GPU that can be used: ") + cudaGetErrorName(error) + ", " +
                         cudaGetErrorString(error));
    }
    int major = 0, minor = 0;
    JANUS_RETURN_IF_ERROR(Check(
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, kDevice), "device"));
    JANUS_RETURN_IF_ERROR(Check(
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, kDevice), "device"));
    const std::string sm = "sm_" + std::to_string(10 * major + minor);
    // Before the query below, which answers differently if the GPU is full, broken or reserved by
    // another process.
    cudaError_t error = cudaSetDevice(kDevice);
    if (error == cudaSuccess) error = cudaFree(nullptr);
    cudaFuncAttributes attributes;
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, CompiledLikeAll);
    if (error != cudaSuccess) {
      cudaGetLastError();  // or the next launch would tell it
      if (IsOfOtherArchitecture(error)) {
        return FailedPrecondition("this build has no kernels for the GPU here, of " + sm);
      }
      return Unavailable("the GPU here, of " + sm + ", cannot be used: " + cudaGetErrorName(error) +
                         ", " + cudaGetErrorString(error));
    }
    numerics_ = "cuda " + sm + (cuda::DeviceHasWgmma() ? "a" : "");
    // Without it only the distance to network devices is unknown.
    char address[32] = {};
    if (cudaDeviceGetPCIBusId(address, sizeof address, kDevice) == cudaSuccess) {
      pci_address_ = address;
    } else {
      cudaGetLastError();
    }
    // Without it nothing but the device's data sheet is unknown.
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, kDevice) == cudaSuccess) {
      name_ = properties.name;
    } else {
      cudaGetLastError();
    }
    // A driver that does not know it does not order them either.
    int order = 0;
    const bool knows = cudaDeviceGetAttribute(&order, cudaDevAttrGPUDirectRDMAWritesOrdering,
                                              kDevice) == cudaSuccess;
    orders_network_ = knows && order >= cudaGPUDirectRDMAWritesOrderingOwner;
    orders_network_for_all_ = knows && order >= cudaGPUDirectRDMAWritesOrderingAllDevices;
    cudaGetLastError();
    int has_pools = 0;
    JANUS_RETURN_IF_ERROR(Check(
        cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, kDevice), "device"));
    if (has_pools == 0) {
      return Unavailable("the GPU here, of " + sm +
                         ", has no memory pools (cudaDevAttrMemoryPoolsSupported), as some virtual "
                         "GPUs have none");
    }
    JANUS_RETURN_IF_ERROR(
        Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"));
    JANUS_RETURN_IF_ERROR(
        Check(cudaStreamCreateWithFlags(&loads_, cudaStreamNonBlocking), "stream of loads"));
    JANUS_RETURN_IF_ERROR(
        Check(cudaEventCreateWithFlags(&given_back_, cudaEventDisableTiming), "event"));
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = kDevice;
    JANUS_RETURN_IF_ERROR(Check(cudaMemPoolCreate(&pool_, &props), "memory pool"));
    // Freed memory stays in the pool, because the next epoch allocates it again.
    uint64_t keep = UINT64_MAX;
    return Check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
                 "memory pool");
  }
  ~CudaContext() override {
    const WaitWatch::Wait watched = Watched("the end of what was queued");
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    if (loads_ != nullptr) cudaStreamSynchronize(loads_);
    if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
    if (given_back_ != nullptr) cudaEventDestroy(given_back_);
    if (loads_ != nullptr) cudaStreamDestroy(loads_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  bool is_host() const override { return false; }
  std::string numerics() const override { return numerics_; }
  std::string pci_address() const override { return pci_address_; }
  std::string name() const override { return name_; }
  Stream stream() override { return {.device = Device::kCuda, .native = stream_}; }

  Result<DeviceMemory> memory() override {
    size_t free = 0, total = 0;
    JANUS_RETURN_IF_ERROR(Check(cudaMemGetInfo(&free, &total), "device memory"));
    uint64_t held = 0;
    JANUS_RETURN_IF_ERROR(Check(
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &held), "memory pool"));
    return DeviceMemory{total, free, held + shared_bytes_};
  }
  Status CopyWithin(void* to, const void* from, size_t bytes) override {
    return Copy(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  Result<std::unique_ptr<Event>> MakeEvent() override { return Make(cudaEventDisableTiming); }
  Result<std::unique_ptr<Event>> MakeTimedEvent() override { return Make(cudaEventDefault); }
  Result<Seconds> TimeBetween(Event& from, Event& to) override {
    float milliseconds = 0;
    JANUS_RETURN_IF_ERROR(
        Check(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(from).event,
                                   static_cast<CudaEvent&>(to).event),
              "time between events"));
    return Seconds(milliseconds * 1e-3);
  }
  NetworkMemory network_memory() const override { return NetworkMemory::kCuda; }
  // Writes of a network device, and the launch of a kernel that reads them, reach the GPU over PCI
  // from two devices. If the GPU does not order the two, the host makes it wait.
  Status AdmitNetwork(NetworkUse use) override {
    if (OrdersNetwork(use)) return OkStatus();
    return Check(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                    use == NetworkUse::kWritesForAll
                                                        ? cudaFlushGPUDirectRDMAWritesToAllDevices
                                                        : cudaFlushGPUDirectRDMAWritesToOwner),
                 "writes of a network device");
  }
  Status Record(Event& event) override {
    return Check(cudaEventRecord(static_cast<CudaEvent&>(event).event, stream_), "event");
  }
  Status RecordLoads(Event& event) override {
    return Check(cudaEventRecord(static_cast<CudaEvent&>(event).event, loads_), "event of loads");
  }

 protected:
  Result<std::byte*> AllocateDeviceMemory(size_t bytes) override {
    return Allocate(bytes, stream_);
  }
  void FreeDevice(std::byte* data, size_t) override {
    if (cudaFreeAsync(data, stream_) != cudaSuccess) cudaGetLastError();
  }
  Result<std::byte*> AllocateLoadMemory(size_t bytes) override { return Allocate(bytes, loads_); }
  // Steps may read the memory until now, so loads wait for steps; steps do not wait for loads. If
  // another thread records the event again between the two calls, loads wait for more, never for
  // less.
  void FreeLoaded(std::byte* data, size_t) override {
    if (cudaEventRecord(given_back_, stream_) != cudaSuccess ||
        cudaStreamWaitEvent(loads_, given_back_) != cudaSuccess) {
      cudaStreamSynchronize(stream_);  // else loads could overwrite what a step reads
      cudaGetLastError();
    }
    if (cudaFreeAsync(data, loads_) != cudaSuccess) cudaGetLastError();
  }
  Result<std::byte*> AllocatePinnedMemory(size_t bytes) override {
    void* data = nullptr;
    JANUS_RETURN_IF_ERROR(
        Check(cudaMallocHost(&data, bytes), std::to_string(bytes) + " bytes of pinned memory"));
    return static_cast<std::byte*>(data);
  }
  // A copy that is under way still uses it.
  void FreePinned(std::byte* data, size_t) override {
    {
      const WaitWatch::Wait watched = Watched(kGivesBack);
      cudaStreamSynchronize(stream_);
      cudaStreamSynchronize(loads_);
    }
    cudaFreeHost(data);
  }
  Result<std::byte*> AllocateSharedMemory(size_t bytes, Fd& fd) override {
    Result<std::byte*> data = shared_.Allocate(bytes, fd);
    if (data.status().code() == StatusCode::kResourceExhausted) {
      GiveUpKept();
      data = shared_.Allocate(bytes, fd);
    }
    if (data.ok()) shared_bytes_ += bytes;
    return data;
  }
  void FreeShared(std::byte* data, size_t bytes) override {
    shared_bytes_ -= bytes;
    Unmap(data, bytes);
  }
  Result<std::byte*> Map(const Fd& fd, size_t bytes) override { return shared_.Map(fd, bytes); }
  // Steps may have used it until now.
  void Unmap(std::byte* data, size_t bytes) override {
    cudaStreamSynchronize(stream_);
    cudaGetLastError();
    shared_.Unmap(data, bytes);
  }
  Status QueueIn(void* device, const void* host, size_t bytes) override {
    return Copy(device, host, bytes, cudaMemcpyHostToDevice);
  }
  Status QueueLoad(void* device, const void* pinned, size_t bytes) override {
    return Check(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, loads_), "load");
  }
  Status QueueWait(Event& event) override {
    return Check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).event),
                 "wait for loads");
  }
  // Relaxed, because this may be a kernel's first launch, which loads the kernel if the environment
  // says so. Nothing here does what capturing forbids.
  Result<std::unique_ptr<Graph>> Capture(FunctionRef<Status(const Stream&)> operations) override {
    Recording recording;
    JANUS_RETURN_IF_ERROR(Check(cudaStreamCreateWithFlags(&recording.stream, cudaStreamNonBlocking),
                                "stream of a graph"));
    JANUS_RETURN_IF_ERROR(Check(
        cudaStreamBeginCapture(recording.stream, cudaStreamCaptureModeRelaxed), "graph, begin"));
    Stream on = stream();
    on.native = recording.stream;
    const Status recorded = operations(on);
    // Ends the capture, even after an error.
    const cudaError_t ended = cudaStreamEndCapture(recording.stream, &recording.graph);
    if (ended != cudaSuccess) cudaGetLastError();  // else the next launch would report it
    JANUS_RETURN_IF_ERROR(recorded);
    JANUS_RETURN_IF_ERROR(Check(ended, "graph, end"));
    auto made = std::make_unique<CudaGraph>();
    Status instantiated = Check(cudaGraphInstantiate(&made->exec, recording.graph, 0), "graph");
    if (instantiated.code() == StatusCode::kResourceExhausted) {
      GiveUpKept();
      instantiated = Check(cudaGraphInstantiate(&made->exec, recording.graph, 0), "graph");
    }
    JANUS_RETURN_IF_ERROR(instantiated);
    // Uploads the graph before a step needs it. Replays need not wait for that.
    JANUS_RETURN_IF_ERROR(Check(cudaGraphUpload(made->exec, recording.stream), "graph, upload"));
    JANUS_RETURN_IF_ERROR(Check(cudaStreamSynchronize(recording.stream), "graph, upload"));
    return std::unique_ptr<Graph>(std::move(made));
  }
  Status QueueGraph(Graph& graph) override {
    return Check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).exec, stream_), "graph, launch");
  }
  Status QueueOut(void* host, const void* device, size_t bytes) override {
    return Copy(host, device, bytes, cudaMemcpyDeviceToHost);
  }
  Status WaitForStream() override { return Check(cudaStreamSynchronize(stream_), "stream"); }
  Status WaitForEvent(Event& event) override {
    return Check(cudaEventSynchronize(static_cast<CudaEvent&>(event).event), "event");
  }
  Result<bool> QueryEvent(Event& event) override {
    const cudaError_t answer = cudaEventQuery(static_cast<CudaEvent&>(event).event);
    if (answer == cudaErrorNotReady) {
      cudaGetLastError();  // not a failure, but this thread's next launch would report it
      return false;
    }
    JANUS_RETURN_IF_ERROR(Check(answer, "event"));
    return true;
  }
  Status RegisterFlagPages(std::byte* begin, size_t bytes) override {
    return flags_.Register(begin, bytes);
  }
  // Steps may have signalled flags there, or waited for them, until now.
  void UnregisterFlagPages(std::byte* begin, size_t bytes) override {
    cudaStreamSynchronize(stream_);
    cudaGetLastError();
    flags_.Unregister(begin, bytes);
  }
  Status PinHere(std::byte* begin, size_t bytes) override {
    return CudaHostPages().Use(begin, bytes);
  }
  // A copy that is under way still uses it.
  void Unpin(std::byte* begin, size_t bytes) override {
    cudaStreamSynchronize(stream_);
    cudaGetLastError();
    CudaHostPages().Drop(begin, bytes);
  }
  Result<std::byte*> OpenToNetwork(const SharedMemory& memory, NetworkUse use) override {
    JANUS_RETURN_IF_ERROR(shared_.CheckNetwork());
    if (use != NetworkUse::kReads && !OrdersNetwork(use)) {
      int ways = 0;
      JANUS_RETURN_IF_ERROR(
          Check(cudaDeviceGetAttribute(&ways, cudaDevAttrGPUDirectRDMAFlushWritesOptions, kDevice),
                "device"));
      if ((ways & cudaFlushGPUDirectRDMAWritesOptionHost) == 0) {
        return FailedPrecondition("the host cannot tell when a network device's writes are there");
      }
    }
    return memory.buffer.data();
  }
  void CloseToNetwork(std::byte*, size_t) override {}
  Status QueueSignal(std::span<const FlagCount> flags) override {
    return flags_.Signal(stream_, flags);
  }
  Status QueueWaitFlags(std::span<const FlagCount> flags) override {
    return flags_.StreamWait(stream_, flags);
  }

 private:
  static constexpr int kDevice = 0;
  bool OrdersNetwork(NetworkUse use) const {
    return use == NetworkUse::kWritesForAll ? orders_network_for_all_ : orders_network_;
  }
  static Result<std::unique_ptr<Event>> Make(unsigned int flags) {
    auto made = std::make_unique<CudaEvent>();
    JANUS_RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&made->event, flags), "event"));
    return std::unique_ptr<Event>(std::move(made));
  }
  // Returns the memory that the pool keeps to the device, for allocations outside the pool. Waits
  // for queued work first: the pool gets a step's memory back only when that has run.
  void GiveUpKept() {
    for (const cudaStream_t stream : {stream_, loads_}) cudaStreamSynchronize(stream);
    cudaMemPoolTrimTo(pool_, 0);
    cudaGetLastError();  // the next use of a failed stream reports its error
  }
  // Memory that one stream freed can serve the other when the first has run up to the free.
  Result<std::byte*> Allocate(size_t bytes, cudaStream_t stream) {
    void* data = nullptr;
    JANUS_RETURN_IF_ERROR(Check(cudaMallocFromPoolAsync(&data, bytes, pool_, stream),
                                std::to_string(bytes) + " bytes of device memory"));
    return static_cast<std::byte*>(data);
  }
  Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return Check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copy");
  }

  CudaSharedMemory shared_{kDevice};
  CudaFlags flags_{kDevice};
  std::atomic<uint64_t> shared_bytes_{0};
  std::string numerics_;
  std::string pci_address_;
  std::string name_;
  // Writes of network devices before later launches, here and on other devices.
  bool orders_network_ = false;
  bool orders_network_for_all_ = false;
  cudaStream_t stream_ = nullptr;  // of the steps
  cudaStream_t loads_ = nullptr;
  cudaEvent_t given_back_ = nullptr;  // recorded on the steps' stream, waited for by loads
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace

void PrepareCudaEnvironment() {
  // Once, because other threads may read the environment at a second call.
  [[maybe_unused]] static const bool is_prepared = [] {
    // If a kernel's first launch loads the kernel, it may wait for every stream, even for one that
    // waits for a flag.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    // More streams share a hardware queue, where one that waits holds up the others.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    return true;
  }();
}

Result<std::unique_ptr<Context>> MakeCudaContext() {
  PrepareCudaEnvironment();
  auto context = std::make_unique<CudaContext>();
  JANUS_RETURN_IF_ERROR(context->Open());
  return std::unique_ptr<Context>(std::move(context));
}

}  // namespace janus::kernels
