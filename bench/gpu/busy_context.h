#pragma once

// Measures the share of time that a device spends in kernels, over all its streams. Contexts mark,
// with the device's clock, where kernels may begin and where they end.

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "kernels/device/context.h"

namespace janus::bench {

// Marks moments in a device's streams. Thread-safe.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  // Queues a mark on a stream of the device. It is passed when all work before it has run.
  virtual size_t Mark(const kernels::Stream& stream) = 0;
  // When the mark was passed, in seconds after the first mark. Call it after the streams have run.
  // A GPU reports it in single precision: exact to a microsecond for the first 10 s.
  virtual double SecondsOf(size_t mark) = 0;
  // A stream without other work: a mark there is passed at once.
  virtual kernels::Stream own_stream() = 0;
};

// For a device that runs everything when it is queued. Uses the host's clock.
std::unique_ptr<StreamClock> MakeHostClock();

// The time from one mark to another.
struct BusySpan {
  size_t begin;
  size_t end;
};

// The share of begin..end that no span covers. Spans are in seconds; they may overlap and reach
// beyond begin and end. 0 if begin..end is empty.
double UncoveredShare(std::vector<std::pair<double, double>> spans, double begin, double end);

// Owns another context and adds marks. A span with kernels lasts
//   - from before the replay of a graph until after it;
//   - for launches that are started one by one: from after a copy to or within the device until
//     the next copy or graph, unless that is another copy to the device. (An expert instance waits
//     between the rows of two senders.) A wait on flags counts as such a copy; the wait itself is
//     not in a span.
// If a stream idles within a span because the host has not queued the next launch yet, that time
// counts as kernels. The share outside kernels is therefore a lower bound.
class BusyContext final : public kernels::Context {
 public:
  // `clock` must outlive this.
  BusyContext(std::unique_ptr<kernels::Context> of, StreamClock& clock)
      : of_(std::move(of)), clock_(clock) {}
  ~BusyContext() override;

  // Turns marks on or off. From any thread.
  void Watch(bool watch) { watches_ = watch; }
  // All spans until now.
  std::vector<BusySpan> TakeSpans();

  bool is_host() const override { return of_->is_host(); }
  std::string numerics() const override { return of_->numerics(); }
  std::string pci_address() const override { return of_->pci_address(); }
  kernels::Stream stream() override { return of_->stream(); }
  Status CopyWithin(void* to, const void* from, size_t bytes) override;
  Result<std::unique_ptr<kernels::Event>> MakeEvent() override { return of_->MakeEvent(); }
  Status Record(kernels::Event& event) override { return of_->Record(event); }
  Status RecordLoads(kernels::Event& event) override { return of_->RecordLoads(event); }
  Result<std::unique_ptr<kernels::Event>> MakeTimedEvent() override {
    return of_->MakeTimedEvent();
  }
  Result<Seconds> TimeBetween(kernels::Event& from, kernels::Event& to) override {
    return of_->TimeBetween(from, to);
  }
  kernels::NetworkMemory network_memory() const override { return of_->network_memory(); }
  Status AdmitNetwork(kernels::NetworkUse use) override { return of_->AdmitNetwork(use); }
  Result<kernels::DeviceMemory> memory() override { return of_->memory(); }

 protected:
  Result<std::byte*> AllocateDeviceMemory(size_t bytes) override {
    return Keep(of_->Allocate(bytes));
  }
  void FreeDevice(std::byte* data, size_t bytes) override { Drop(data, bytes); }
  Result<std::byte*> AllocateLoadMemory(size_t bytes) override {
    return Keep(of_->AllocateForLoad(bytes));
  }
  void FreeLoaded(std::byte* data, size_t bytes) override { Drop(data, bytes); }
  Result<std::byte*> AllocatePinnedMemory(size_t bytes) override {
    return Keep(of_->AllocatePinned(bytes));
  }
  void FreePinned(std::byte* data, size_t bytes) override { Drop(data, bytes); }
  Result<std::byte*> AllocateSharedMemory(size_t bytes, Fd& fd) override {
    JANUS_ASSIGN_OR_RETURN(kernels::SharedMemory shared, of_->AllocateShared(bytes));
    fd = std::move(shared.fd);
    return Keep(std::move(shared.buffer));
  }
  void FreeShared(std::byte* data, size_t bytes) override { Drop(data, bytes); }
  Result<std::byte*> Map(const Fd& fd, size_t bytes) override {
    return Keep(of_->MapShared(fd, bytes));
  }
  void Unmap(std::byte* data, size_t bytes) override { Drop(data, bytes); }
  Status QueueIn(void* device, const void* host, size_t bytes) override;
  Status QueueOut(void* host, const void* device, size_t bytes) override;
  Status QueueLoad(void* device, const void* pinned, size_t bytes) override {
    return of_->Load(device, pinned, bytes);
  }
  Status QueueWait(kernels::Event& event) override { return of_->StreamWait(event); }
  Result<std::unique_ptr<kernels::Graph>> Capture(
      FunctionRef<Status(const kernels::Stream&)> operations) override {
    return of_->RecordGraph(operations);
  }
  Status QueueGraph(kernels::Graph& graph) override;
  Status WaitForStream() override;
  Status WaitForEvent(kernels::Event& event) override { return of_->Await(event); }
  Result<bool> QueryEvent(kernels::Event& event) override { return of_->Query(event); }
  Status RegisterFlagPages(std::byte* begin, size_t bytes) override {
    return Keep(of_->RegisterFlags(begin, bytes)).status();
  }
  void UnregisterFlagPages(std::byte* begin, size_t bytes) override { Drop(begin, bytes); }
  Status PinHere(std::byte* begin, size_t bytes) override {
    return Keep(of_->Pin(begin, bytes)).status();
  }
  void Unpin(std::byte* begin, size_t bytes) override { Drop(begin, bytes); }
  Result<std::byte*> OpenToNetwork(const kernels::SharedMemory&, kernels::NetworkUse) override {
    return FailedPrecondition("what is measured is one machine");
  }
  void CloseToNetwork(std::byte*, size_t) override {}
  Status QueueSignal(std::span<const kernels::FlagCount> flags) override {
    return of_->Signal(flags);
  }
  Status QueueWaitFlags(std::span<const kernels::FlagCount> flags) override;

 private:
  Result<std::byte*> Keep(Result<kernels::Buffer> taken);
  void Drop(std::byte* data, size_t bytes);
  // Ends the span of launches that may have begun since `launches_from_`.
  void EndLaunches();

  const std::unique_ptr<kernels::Context> of_;
  StreamClock& clock_;
  std::atomic<bool> watches_{false};
  Mutex mu_;
  std::multimap<std::byte*, kernels::Buffer> buffers_ JANUS_GUARDED_BY(mu_);
  std::vector<BusySpan> spans_ JANUS_GUARDED_BY(mu_);
  // Used only by the thread that steps.
  std::optional<size_t> launches_from_;
  bool came_in_ = false;  // the span before ended with a copy to the device
};

}  // namespace janus::bench
