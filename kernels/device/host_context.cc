// The device is this process's CPU: what is queued has run, and its memory is the host's.

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <string>

#include "kernels/device/context.h"

namespace janus::kernels {
namespace {

constexpr size_t kAlignment = 64;
// Larger pieces are addresses without a reservation, taken as they are first written: keys and
// values have room for more than most services use.
constexpr size_t kMapped = size_t{1} << 20;

class Host final : public Context {
 public:
  bool is_host() const override { return true; }
  std::string numerics() const override { return {}; }
  std::string pci_address() const override { return {}; }
  Stream stream() override { return {.device = Device::kCpu}; }

  Result<DeviceMemory> memory() override { return NotADevice(); }
  Status CopyWithin(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return OkStatus();
  }
  Result<std::unique_ptr<Event>> MakeEvent() override { return std::make_unique<Event>(); }
  Status Record(Event&) override { return OkStatus(); }
  Status RecordLoads(Event&) override { return OkStatus(); }
  Result<std::unique_ptr<Event>> MakeTimedEvent() override { return NotADevice(); }
  Result<Seconds> TimeBetween(Event&, Event&) override { return NotADevice(); }
  NetworkMemory network_memory() const override { return NetworkMemory::kHost; }
  Status AdmitNetwork(NetworkUse) override { return OkStatus(); }

 protected:
  Result<std::byte*> AllocateDeviceMemory(size_t bytes) override {
    if (bytes < kMapped) {
      return static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)));
    }
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return ResourceExhausted("cannot reserve " + std::to_string(bytes) + " bytes");
    }
    return static_cast<std::byte*>(memory);
  }
  void FreeDevice(std::byte* data, size_t bytes) override {
    if (bytes < kMapped) {
      ::operator delete(data, std::align_val_t(kAlignment));
    } else {
      munmap(data, bytes);
    }
  }
  Result<std::byte*> AllocateLoadMemory(size_t bytes) override {
    return AllocateDeviceMemory(bytes);
  }
  void FreeLoaded(std::byte* data, size_t bytes) override { FreeDevice(data, bytes); }
  Result<std::byte*> AllocatePinnedMemory(size_t bytes) override {
    return AllocateDeviceMemory(bytes);
  }
  void FreePinned(std::byte* data, size_t bytes) override { FreeDevice(data, bytes); }

  Result<std::byte*> AllocateSharedMemory(size_t, Fd&) override { return NotADevice(); }
  void FreeShared(std::byte*, size_t) override {}
  Result<std::byte*> Map(const Fd&, size_t) override { return NotADevice(); }
  void Unmap(std::byte*, size_t) override {}

  Status QueueIn(void* device, const void* host, size_t bytes) override {
    return CopyWithin(device, host, bytes);
  }
  Status QueueOut(void* host, const void* device, size_t bytes) override {
    return CopyWithin(host, device, bytes);
  }
  Status QueueLoad(void* device, const void* pinned, size_t bytes) override {
    return CopyWithin(device, pinned, bytes);
  }
  Status QueueWait(Event&) override { return OkStatus(); }
  Result<std::unique_ptr<Graph>> Capture(FunctionRef<Status(const Stream&)>) override {
    return FailedPrecondition("the host has no launches to record");
  }
  Status QueueGraph(Graph&) override { return Internal("a graph of the host's"); }
  Status WaitForStream() override { return OkStatus(); }
  Status WaitForEvent(Event&) override { return OkStatus(); }
  Result<bool> QueryEvent(Event&) override { return true; }
  Status RegisterFlagPages(std::byte*, size_t) override { return NotADevice(); }
  void UnregisterFlagPages(std::byte*, size_t) override {}
  Status PinHere(std::byte*, size_t) override { return NotADevice(); }
  void Unpin(std::byte*, size_t) override {}
  Result<std::byte*> OpenToNetwork(const SharedMemory&, NetworkUse) override {
    return NotADevice();
  }
  void CloseToNetwork(std::byte*, size_t) override {}
  Status QueueSignal(std::span<const FlagCount>) override { return NotADevice(); }
  Status QueueWaitFlags(std::span<const FlagCount>) override { return NotADevice(); }

 private:
  static Status NotADevice() { return FailedPrecondition("the host's memory is not a device's"); }
};

}  // namespace

// Never destroyed: statics may hold its buffers.
Context& HostContext() {
  static Context& host = *new Host;
  return host;
}

}  // namespace janus::kernels
