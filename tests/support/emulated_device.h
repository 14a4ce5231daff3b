#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "kernels/cuda/start.h"
#include "kernels/device/context.h"
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
// What it cannot show: that somebody forgets to wait, since every step has run when it was queued.
// Copies down are therefore kept back: the host sees them after a wait alone, and until then what
// it had is overwritten with NaN.
//
// Loads are kept back likewise, as a second stream that lags as far behind as it may: each runs,
// from what its pinned memory holds by then, when steps follow an event or the host awaits one, or
// where memory is short; its place is NaN before. Memory that is given back after loads goes in
// their order. LandAtAnyTime has them run sooner, between any two things that steps queue.
//   - A load from what is not pinned, or to what was not taken for loads, is an error.
//
// What it shares lies in files of memory, which every device maps among its own: an address of
// another device's is one that nobody may touch.
//
// A graph keeps its launches with the arguments and plans that they were recorded with, and starts
// them anew with each replay.
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

  uint64_t launches() const;
  // That have not run.
  size_t pending_loads() const;
  // From now on every launch and every wait fails, as after a fault of a kernel.
  void Break() { is_broken_ = true; }
  // The next load after so many is refused, once.
  void RefuseLoadAfter(int loads);
  void LandAtAnyTime(uint64_t seed);
  // It maps nothing of others, as a GPU without a way to theirs.
  void Isolate() { reaches_others_ = false; }
  // It is there on the bus from now on; nowhere before. Before others have it.
  void Plug(std::string pci_address) { pci_address_ = std::move(pci_address); }

 protected:
  Result<std::byte*> AllocateDevice(size_t bytes) override;
  void FreeDevice(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocateLoaded(size_t bytes) override;
  void FreeLoaded(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocatePinned(size_t bytes) override;
  void FreePinned(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocateShared(size_t bytes, Fd& fd) override;
  void FreeShared(std::byte* data, size_t bytes) override { Unmap(data, bytes); }
  Result<std::byte*> Map(const Fd& fd, size_t bytes) override;
  void Unmap(std::byte* data, size_t bytes) override;
  Status QueueIn(void* device, const void* host, size_t bytes) override;
  Status QueueOut(void* host, const void* device, size_t bytes) override;
  Status QueueLoad(void* device, const void* pinned, size_t bytes) override;
  Status QueueFollow(Event& event) override;
  Result<std::unique_ptr<Graph>> Capture(FunctionRef<Status(const Stream&)> operations) override;
  Status QueueGraph(Graph& graph) override;
  Status WaitForStream() override;
  Status WaitForEvent(Event& event) override;

 private:
  struct Taken {
    size_t size;
    bool is_loaded = false;
    bool is_given_back = false;  // loads before it have not run
    bool is_shared = false;
  };
  // A copy up, or without a source the end of what was taken.
  struct LoadOp {
    std::byte* device;
    const std::byte* pinned;
    size_t size;
  };
  struct CopyDown {
    std::byte* host;
    std::unique_ptr<std::byte[]> bytes;
    size_t size;
  };

  Status BeginLaunch(std::string_view operation, const void* kernel, size_t bytes) override;
  void EndLaunch() override;
  // The first so many copies down of all.
  void Deliver(uint64_t until) JANUS_REQUIRES(mu_);
  void Open() JANUS_REQUIRES(mu_);
  void Close() JANUS_REQUIRES(mu_);
  void Protect(int protection) JANUS_REQUIRES(mu_);
  Result<std::byte*> Allocate(size_t bytes, bool is_loaded);
  // What shared memory has whole pages of.
  static size_t RoomOf(const Taken& taken);
  // Null where the rest of the memory has no such gap.
  std::byte* FindGap(size_t bytes, size_t alignment) const JANUS_REQUIRES(mu_);
  // Puts memory of a file where there is a gap; closed. Null: there is none.
  std::byte* Place(const Fd& fd, size_t bytes) JANUS_REQUIRES(mu_);
  // What holds all of it, if anybody has it.
  const Taken* Find(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);
  bool Holds(const void* data, size_t bytes) const JANUS_REQUIRES(mu_) {
    return Find(data, bytes) != nullptr;
  }
  // The first so many loads of all.
  void RunLoads(uint64_t until) JANUS_REQUIRES(mu_);
  // Some or none, where they land at any time.
  void LandSome() JANUS_REQUIRES(mu_);
  // A word that looks like an address of the host, if there is one.
  const void* HostAddressIn(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);

  const size_t most_bytes_;
  std::string pci_address_;
  std::atomic<bool> is_broken_{false};
  std::atomic<bool> reaches_others_{true};
  std::byte* const begin_;
  mutable Mutex mu_;  // held while the memory is open
  std::map<std::byte*, Taken> taken_ JANUS_GUARDED_BY(mu_);
  std::map<const std::byte*, size_t> pinned_ JANUS_GUARDED_BY(mu_);
  std::byte* end_ JANUS_GUARDED_BY(mu_);             // of what was ever taken
  std::deque<CopyDown> down_ JANUS_GUARDED_BY(mu_);  // that have not come
  uint64_t delivered_ JANUS_GUARDED_BY(mu_) = 0;
  std::deque<LoadOp> loads_ JANUS_GUARDED_BY(mu_);  // that have not run
  uint64_t loads_run_ JANUS_GUARDED_BY(mu_) = 0;
  int loads_until_refusal_ JANUS_GUARDED_BY(mu_) = -1;  // negative: none is refused
  std::optional<Random> landing_ JANUS_GUARDED_BY(mu_);
  uint64_t launches_ JANUS_GUARDED_BY(mu_) = 0;
};

}  // namespace janus::kernels
