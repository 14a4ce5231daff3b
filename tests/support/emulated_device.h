#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>

#include "common/mutex.h"
#include "kernels/cuda/start.h"
#include "kernels/device/context.h"

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
// What it cannot show: that somebody forgets to wait, since everything has run when it was queued.
// Copies down are therefore kept back: the host sees them after a wait alone, and until then what
// it had is overwritten with NaN.
class EmulatedDevice final : public Context, private cuda::PlayedDevice {
 public:
  explicit EmulatedDevice(size_t most_bytes = size_t{256} << 20);
  ~EmulatedDevice() override;

  bool is_host() const override { return false; }
  std::string numerics() const override { return "emulated"; }
  Stream stream() override;
  Status CopyWithin(void* to, const void* from, size_t bytes) override;
  Result<std::unique_ptr<Event>> MakeEvent() override { return std::make_unique<Event>(); }
  Status Record(Event&) override { return OkStatus(); }

  uint64_t launches() const;
  // From now on every wait fails, as after a fault of a kernel.
  void Break() { is_broken_ = true; }

 protected:
  Result<std::byte*> AllocateDevice(size_t bytes) override;
  void FreeDevice(std::byte* data, size_t bytes) override;
  Result<std::byte*> AllocatePinned(size_t bytes) override;
  void FreePinned(std::byte* data, size_t bytes) override;
  Status QueueIn(void* device, const void* host, size_t bytes) override;
  Status QueueOut(void* host, const void* device, size_t bytes) override;
  Status WaitForStream() override;
  Status WaitForEvent(Event& event) override;

 private:
  struct CopyDown {
    std::byte* host;
    std::unique_ptr<std::byte[]> bytes;
    size_t size;
  };

  Status BeginLaunch(std::string_view operation, const void* kernel, size_t bytes) override;
  void EndLaunch() override;
  // Every copy down that is still under way.
  void Deliver();
  void Open() JANUS_REQUIRES(mu_);
  void Close() JANUS_REQUIRES(mu_);
  bool Holds(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);
  // A word that looks like an address of the host, if there is one.
  const void* HostAddressIn(const void* data, size_t bytes) const JANUS_REQUIRES(mu_);

  const size_t most_bytes_;
  std::atomic<bool> is_broken_{false};
  std::byte* const begin_;
  mutable Mutex mu_;  // held while the memory is open
  std::map<std::byte*, size_t> taken_ JANUS_GUARDED_BY(mu_);
  std::byte* end_ JANUS_GUARDED_BY(mu_);  // of what was ever taken
  std::vector<CopyDown> down_ JANUS_GUARDED_BY(mu_);
  uint64_t launches_ JANUS_GUARDED_BY(mu_) = 0;
};

}  // namespace janus::kernels
