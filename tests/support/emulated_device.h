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

// A GPU played by this CPU, for programs that link the CUDA kernels' host form: every launch runs
// at once on its thread, threads and blocks in another order each time.
//
// What would be a fault or a wrong read on a GPU is one here:
//   - The memory can be touched within a launch or a copy alone; host code that does dies of a
//     segmentation fault.
//   - An address of the host among a kernel's arguments, or in what is copied up, is an error that
//     names the operation. (Words that look like addresses of this process and lie in memory that
//     it uses.)
//   - A copy to or from what was not taken here, or is longer than it, is an error.
//   - New memory holds bytes that are NaN as numbers.
// What it cannot show: a missing wait, since every step has run when it was queued.
// Copies down are therefore kept back: the host sees them after a wait alone, and until then what
// it had is overwritten with NaN. Copies up, which are queued behind them, do see them.
//
// Loads are kept back likewise, as a second stream that lags as far behind as it may: each runs,
// from what its pinned memory holds by then, when steps follow an event or the host awaits one, or
// where memory is short; its place is NaN before. Memory that is given back after loads goes in
// their order. LandAtAnyTime has them run sooner, between any two things that steps queue.
//   - A load from what is not pinned, or to what was not taken for loads, is an error.
//
// What it shares lies in files of memory, which every device maps among its own: an address of
// another device must not be touched.
//
// What network devices write lies beside its memory until it is admitted.
//
// A graph keeps its launches with the arguments and plans that they were recorded with, and starts
// them anew with each replay.
//
// RunBehind gives it a stream that lags (tests/support/emulated_stream.h): what steps queue runs
// later, in order, on a thread of the device's, as memory of theirs goes. Then all that a GPU does
// by itself shows:
//   - What goes up is read when its copy runs: what overwrites it sooner is seen.
//   - A copy down overwrites what the host had when it runs, and is kept back until a wait.
//   - A wait for a flag waits. Without a thread no other could raise it any more, so a flag below
//     its count is an error.
//   - What a launch does wrong, an address of the host or a broken device, is reported by the next
//     wait and by all that is queued from then on, and nothing runs any more.
// A step that waits for a flag which is never raised blocks the device's end, as on a GPU.
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
  Status AdmitNetwork() override;

  // That have run.
  uint64_t launches() const;
  // That have not run.
  size_t pending_loads() const;
  // Of the host: given by AllocatePinned and not given back.
  uint64_t pinned_bytes() const;
  // Copies from and to memory of the host that is not pinned: a GPU's may hold the host up.
  uint64_t pageable_copies() const;
  // From now on every launch and every wait fails, as after a fault of a kernel.
  void Break();
  // The next load after so many is refused, once.
  void RefuseLoadAfter(int loads);
  void LandAtAnyTime(uint64_t seed);
  // Before anything else. The thread is there from the first step on: until then the process may
  // fork.
  void RunBehind(uint64_t seed);
  // It maps nothing of others, as a GPU without a way to theirs.
  void Isolate() { reaches_others_ = false; }
  // No host memory is left that could be pinned.
  void RefusePinned() { pins_memory_ = false; }
  // It raises and awaits no flags, as a GPU without such operations.
  void RefuseFlags() { takes_flags_ = false; }
  // It pins nothing that it has not taken.
  void RefusePins() { pins_ = false; }
  // No network device reaches it.
  void RefuseNetwork() { takes_network_ = false; }
  // What network devices read is not its memory.
  void ShowOtherMemoryToNetwork() { shows_other_memory_ = true; }
  // It is there on the bus from now on; nowhere before. Before others have it.
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
    bool is_given_back = false;  // what was queued before it has not run
    bool is_shared = false;
  };
  // A copy up; without a source the end of what was taken; without either a moment.
  struct LoadOp {
    std::byte* device = nullptr;
    const std::byte* pinned = nullptr;
    size_t size = 0;
    uint64_t after_step = 0;  // which has run before it
    std::shared_ptr<MonotonicTime> moment = nullptr;
  };
  struct CopyDown {
    uint64_t step;
    std::byte* host;
    std::unique_ptr<std::byte[]> bytes;
    size_t size;
  };
  // As what kept launches start: at once, on the thread that does.
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

  // Runs it: now, or in the order of the stream. Its number.
  Result<uint64_t> Queue(EmulatedStream::Step step);
  // Until what was queued has run; copies down are kept back still.
  Status WaitForSteps();
  uint64_t steps_queued() const;
  uint64_t steps_run() const;
  // The stream of launches that run at once.
  Stream launching();
  bool records() const override { return stream_ != nullptr; }
  void Keep(Launch launch) override;
  Status BeginLaunch(std::string_view operation, const void* kernel, size_t bytes) override;
  void EndLaunch() override;
  // The copies down until that step.
  void Deliver(uint64_t until) JANUS_REQUIRES(mu_);
  // To `to`, what the device finds at `from` on the host: copies down have come.
  void Read(std::byte* to, const std::byte* from, size_t bytes) const JANUS_REQUIRES(mu_);
  void Open() JANUS_REQUIRES(mu_);
  void Close() JANUS_REQUIRES(mu_);
  void Protect(int protection) JANUS_REQUIRES(mu_);
  Result<std::byte*> Place(size_t bytes, bool is_loaded);
  // What shared memory has whole pages of.
  static size_t RoomOf(const Taken& taken);
  // Null where the rest of the memory has no such gap.
  std::byte* FindGap(size_t bytes, size_t alignment) const JANUS_REQUIRES(mu_);
  // Puts memory of a file where there is a gap; closed. Null: there is none.
  std::byte* Place(const Fd& fd, size_t bytes) JANUS_REQUIRES(mu_);
  // The allocation that holds all of it, if there is one.
  const Taken* Find(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);
  bool Holds(const void* data, size_t bytes) const JANUS_REQUIRES(mu_) {
    return Find(data, bytes) != nullptr;
  }
  // The first so many loads of all, or those of them whose steps have run.
  void RunLoads(uint64_t until) JANUS_REQUIRES(mu_);
  // The last step that an event's loads, so many of all, run after, or its own.
  uint64_t StepOf(uint64_t step, uint64_t loads) const JANUS_REQUIRES(mu_);
  // Some or none, where they land at any time.
  void LandSome() JANUS_REQUIRES(mu_);
  void CountIfPageable(const void* host, size_t bytes) JANUS_REQUIRES(mu_);
  Status CheckShown(std::span<const FlagCount> flags) const;
  // A word that looks like an address of the host, if there is one.
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
  std::atomic<uint64_t> steps_at_once_{0};  // where there is no stream that lags
  Launcher launcher_{*this};
  std::byte* const begin_;
  mutable Mutex mu_;  // held while the memory is open
  std::map<std::byte*, Taken> taken_ JANUS_GUARDED_BY(mu_);
  std::map<const std::byte*, size_t> pinned_ JANUS_GUARDED_BY(mu_);
  std::byte* end_ JANUS_GUARDED_BY(mu_);             // of what was ever taken
  std::deque<CopyDown> down_ JANUS_GUARDED_BY(mu_);  // that have not come
  std::multimap<const std::byte*, size_t> shown_ JANUS_GUARDED_BY(mu_);
  std::multimap<const std::byte*, size_t> pinned_here_ JANUS_GUARDED_BY(mu_);
  uint64_t pageable_copies_ JANUS_GUARDED_BY(mu_) = 0;
  std::map<std::byte*, std::byte*> written_ JANUS_GUARDED_BY(mu_);  // by network devices: to where
  std::deque<LoadOp> loads_ JANUS_GUARDED_BY(mu_);                  // that have not run
  uint64_t loads_run_ JANUS_GUARDED_BY(mu_) = 0;
  int loads_until_refusal_ JANUS_GUARDED_BY(mu_) = -1;  // negative: none is refused
  std::optional<Random> landing_ JANUS_GUARDED_BY(mu_);
  uint64_t launches_ JANUS_GUARDED_BY(mu_) = 0;
  std::unique_ptr<EmulatedStream> stream_;  // null: steps run as they are queued
};

}  // namespace janus::kernels
