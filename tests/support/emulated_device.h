#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "kernels/cuda/start.h"
#include "kernels/device/context.h"
#include "tests/support/emulated_stream.h"
#include "tests/support/random.h"

namespace janus::kernels {

// A GPU emulated on this CPU, for programs that link the CUDA kernels' host form. Every launch runs
// at once on its thread, with threads and blocks in a different order each time.
//
// Faults and wrong reads of a GPU are errors here:
// - The memory can be touched only within a launch or a copy; other host code gets a segmentation
//   fault.
// - A host address among a kernel's arguments, or in data that is copied up, is an error that names
//   the operation. (It looks for words that look like addresses of this process and lie in memory
//   that it uses.)
// - A copy to or from memory that was not allocated here, or beyond its end, is an error.
// - New memory holds bytes that are NaN as numbers.
//
// It cannot show a missing wait by itself, because every step has run once it is queued. Copies
// down are therefore held back: the host sees them only after a wait, and until then its memory
// holds NaN. Copies up that are queued behind them do see them.
//
// Loads are held back too, like on a second stream that lags as far as possible. Each runs when
// steps follow an event, the host awaits one, or memory is short, with the content of its pinned
// memory at that time. Until then its destination holds NaN. Memory that is freed after loads is
// freed in their order. With LandAtAnyTime they may run sooner, between any two operations that
// steps queue.
// - A load from memory that is not pinned, or to memory that was not allocated for loads, is an
//   error.
//
// Shared memory lies in memory files, which every device maps among its own memory. Code must not
// touch an address of another device.
//
// Writes of network devices are kept beside its memory until they are admitted, for that use.
//
// A graph keeps its launches with the arguments and plans of the recording, and runs them anew in
// each replay.
//
// RunBehind gives it a stream that lags (tests/support/emulated_stream.h): steps, and frees of
// their memory, run later, in order, on a thread of the device. Then it shows all asynchronous
// behaviour of a GPU:
// - A copy up reads its source when it runs, so an earlier overwrite is seen.
// - A copy down overwrites the host's memory when it runs, and is held back until a wait.
// - A wait for a flag waits. (Without a thread no other code could raise it, so a flag below its
//   count is an error.)
// - A wrong launch (a host address, a broken device) is reported by the next wait and all later
//   calls, and nothing runs any more.
// If a step waits for a flag that is never raised, the device's destructor blocks, as on a GPU.
class EmulatedDevice final : public Context, private cuda::PlayedDevice {
 public:
  explicit EmulatedDevice(size_t most_bytes = size_t{256} << 20);
  ~EmulatedDevice() override;

  bool is_host() const override { return false; }
  std::string numerics() const override { return "emulated"; }
  std::string pci_address() const override { return pci_address_; }
  Stream stream() override;
  Result<DeviceMemory> memory() override;
  Status CopyWithin(void* to, const void* from, size_t bytes) override;
  Result<std::unique_ptr<Event>> MakeEvent() override;
  Status Record(Event& event) override;
  Status RecordLoads(Event& event) override;
  Result<std::unique_ptr<Event>> MakeTimedEvent() override;
  // By the host's clock.
  Result<Seconds> TimeBetween(Event& from, Event& to) override;
  NetworkMemory network_memory() const override { return NetworkMemory::kHost; }
  Status AdmitNetwork(NetworkUse use) override;

  // Launches that have run.
  uint64_t launches() const;
  // Loads that have not run.
  size_t pending_loads() const;
  // Bytes of host memory from AllocatePinned that are not freed.
  uint64_t pinned_bytes() const;
  // Copies from and to host memory that is not pinned; on a GPU these may block the host.
  uint64_t pageable_copies() const;
  // From now on every launch and every wait fails, as after a kernel's fault.
  void Break();
  // Refuses the next load after so many, once.
  void RefuseLoadAfter(int loads);
  void LandAtAnyTime(uint64_t seed);
  // Call it before anything else. The thread starts with the first step; until then the process may
  // fork.
  void RunBehind(uint64_t seed);
  // It cannot map memory of others, like a GPU without a path to them.
  void Isolate() { reaches_others_ = false; }
  // No host memory can be pinned any more.
  void RefusePinned() { pins_memory_ = false; }
  // It cannot raise or await flags, like a GPU without such operations.
  void RefuseFlags() { takes_flags_ = false; }
  // It cannot pin memory that others allocated.
  void RefusePins() { pins_ = false; }
  // No network device reaches it.
  void RefuseNetwork() { takes_network_ = false; }
  // Network devices read different memory.
  void ShowOtherMemoryToNetwork() { shows_other_memory_ = true; }
  // Gives it a PCI address; before, it has none. Call it before others use it.
  void Plug(std::string pci_address) { pci_address_ = std::move(pci_address); }

 protected:
  Result<std::byte*> AllocateDeviceMemory(size_t bytes) override;
  void FreeDevice(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocateLoadMemory(size_t bytes) override;
  void FreeLoaded(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocatePinnedMemory(size_t bytes) override;
  void FreePinned(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocateSharedMemory(size_t bytes, Fd& fd) override;
  void FreeShared(std::byte* data, size_t bytes) override { Unmap(data, bytes); }
  Result<std::byte*> Map(const Fd& fd, size_t bytes) override;
  void Unmap(std::byte* data, size_t bytes) override;
  Status QueueIn(void* device, const void* host, size_t bytes) override;
  Status QueueOut(void* host, const void* device, size_t bytes) override;
  Status QueueLoad(void* device, const void* pinned, size_t bytes) override;
  Status QueueWait(Event& event) override;
  Result<std::unique_ptr<Graph>> Capture(FunctionRef<Status(const Stream&)> operations) override;
  Status QueueGraph(Graph& graph) override;
  Status WaitForStream() override;
  Status WaitForEvent(Event& event) override;
  Result<bool> QueryEvent(Event& event) override;
  Status RegisterFlagPages(std::byte* begin, size_t bytes) override;
  void UnregisterFlagPages(std::byte* begin, size_t bytes) override;
  Status PinHere(std::byte* begin, size_t bytes) override;
  void Unpin(std::byte* begin, size_t bytes) override;
  Result<std::byte*> OpenToNetwork(const SharedMemory& memory, NetworkUse use) override;
  void CloseToNetwork(std::byte* data, size_t bytes) override;
  Status QueueSignal(std::span<const FlagCount> flags) override;
  Status QueueWaitFlags(std::span<const FlagCount> flags) override;

 private:
  struct Taken {
    size_t size;
    bool is_loaded = false;
    bool is_given_back = false;  // to be freed when earlier work has run
    bool is_shared = false;
  };
  // A copy up. Without a source: a free. Without source and destination: a time stamp.
  struct LoadOp {
    std::byte* device = nullptr;
    const std::byte* pinned = nullptr;
    size_t size = 0;
    uint64_t after_step = 0;  // runs after this step
    std::shared_ptr<MonotonicTime> moment = nullptr;
  };
  struct CopyDown {
    uint64_t step;
    std::byte* host;
    std::unique_ptr<std::byte[]> bytes;
    size_t size;
  };
  // Launches of a graph: at once, on the starting thread.
  class Launcher final : public cuda::PlayedDevice {
   public:
    explicit Launcher(EmulatedDevice& of) : of_(of) {}
    Status BeginLaunch(std::string_view operation, const void* kernel, size_t bytes) override {
      return of_.BeginLaunch(operation, kernel, bytes);
    }
    void EndLaunch() override { of_.EndLaunch(); }

   private:
    EmulatedDevice& of_;
  };

  // Runs it, at once or in the order of the stream. Returns its number.
  Result<uint64_t> Queue(EmulatedStream::Step step);
  // Waits until queued work has run; copies down stay held back.
  Status WaitForSteps();
  uint64_t steps_queued() const;
  uint64_t steps_run() const;
  // The stream for launches that run at once.
  Stream launching();
  bool records() const override { return stream_ != nullptr; }
  void Keep(Launch launch) override;
  Status BeginLaunch(std::string_view operation, const void* kernel, size_t bytes) override;
  void EndLaunch() override;
  // Delivers the copies down until that step.
  void Deliver(uint64_t until) JANUS_REQUIRES(mu_);
  // Copies to `to` what the device finds at `from` on the host, including copies down.
  void Read(std::byte* to, const std::byte* from, size_t bytes) const JANUS_REQUIRES(mu_);
  void Open() JANUS_REQUIRES(mu_);
  void Close() JANUS_REQUIRES(mu_);
  void Protect(int protection) JANUS_REQUIRES(mu_);
  Result<std::byte*> Place(size_t bytes, bool is_loaded);
  // Shared memory takes whole pages.
  static size_t RoomOf(const Taken& taken);
  // Null: the rest of the memory has no such gap.
  std::byte* FindGap(size_t bytes, size_t alignment) const JANUS_REQUIRES(mu_);
  // Maps a file's memory into a gap; closed. Null: there is no gap.
  std::byte* Place(const Fd& fd, size_t bytes) JANUS_REQUIRES(mu_);
  // The allocation that contains the whole range, if there is one.
  const Taken* Find(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);
  bool Holds(const void* data, size_t bytes) const JANUS_REQUIRES(mu_) {
    return Find(data, bytes) != nullptr;
  }
  // Runs the first so many loads, or, of these, the ones with finished steps.
  void RunLoads(uint64_t until) JANUS_REQUIRES(mu_);
  // The last step that must run before an event: its own, or that of the first `loads` loads.
  uint64_t StepOf(uint64_t step, uint64_t loads) const JANUS_REQUIRES(mu_);
  // Runs a random number of loads, if they may land at any time.
  void LandSome() JANUS_REQUIRES(mu_);
  void CountIfPageable(const void* host, size_t bytes) JANUS_REQUIRES(mu_);
  Status CheckShown(std::span<const FlagCount> flags) const;
  // A word that looks like a host address, if there is one.
  const void* HostAddressIn(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);

  const size_t most_bytes_;
  std::string pci_address_;
  std::atomic<bool> is_broken_{false};
  std::atomic<bool> reaches_others_{true};
  std::atomic<bool> pins_memory_{true};
  std::atomic<bool> takes_flags_{true};
  std::atomic<bool> pins_{true};
  std::atomic<bool> takes_network_{true};
  std::atomic<bool> shows_other_memory_{false};
  std::atomic<uint64_t> steps_at_once_{0};  // without a lagging stream
  Launcher launcher_{*this};
  std::byte* const begin_;
  mutable Mutex mu_;  // held while the memory is open
  std::map<std::byte*, Taken> taken_ JANUS_GUARDED_BY(mu_);
  std::map<const std::byte*, size_t> pinned_ JANUS_GUARDED_BY(mu_);
  std::byte* end_ JANUS_GUARDED_BY(mu_);             // of all memory ever allocated
  std::deque<CopyDown> down_ JANUS_GUARDED_BY(mu_);  // held back
  std::multimap<const std::byte*, size_t> shown_ JANUS_GUARDED_BY(mu_);
  std::multimap<const std::byte*, size_t> pinned_here_ JANUS_GUARDED_BY(mu_);
  uint64_t pageable_copies_ JANUS_GUARDED_BY(mu_) = 0;
  // By network devices: to where, and for what use.
  std::map<std::byte*, std::pair<std::byte*, NetworkUse>> written_ JANUS_GUARDED_BY(mu_);
  std::deque<LoadOp> loads_ JANUS_GUARDED_BY(mu_);  // that have not run
  uint64_t loads_run_ JANUS_GUARDED_BY(mu_) = 0;
  int loads_until_refusal_ JANUS_GUARDED_BY(mu_) = -1;  // negative: refuses none
  std::optional<Random> landing_ JANUS_GUARDED_BY(mu_);
  uint64_t launches_ JANUS_GUARDED_BY(mu_) = 0;
  std::unique_ptr<EmulatedStream> stream_;  // null: steps run when they are queued
};

}  // namespace janus::kernels
