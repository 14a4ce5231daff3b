#pragma once

// Where an instance's operations run and what they read and write: memory of a device, the stream
// of its steps, a second one for what is loaded beside them, and the copies between that memory and
// the host's.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/fd.h"
#include "common/function_ref.h"
#include "common/mutex.h"
#include "common/status.h"
#include "kernels/device/wait_watch.h"
#include "kernels/stream.h"

namespace janus::kernels {

class Context;

// Where an instance computes: the stream that operations take, and whose memory they read and
// write. A stream alone is in the host's. Cheap to copy; what it names outlives every copy.
struct Place {
  Place(const Stream& on);  // NOLINT(google-explicit-constructor): most are the host's
  Place(const Stream& on, Context& in) : stream(on), context(&in) {}

  Stream stream;
  Context* context;  // never null
};

// A piece of a context's memory. Movable; empty until it is taken. The context outlives it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class Context;
  enum class Memory : unsigned char {
    kDevice,
    kLoaded,
    kPinned,
    kShared,
    kMapped,
    kRegistered,
    kPinnedHere,
    kNetwork
  };
  Buffer(Context* context, Memory memory, std::byte* data, size_t size)
      : context_(context), memory_(memory), data_(data), size_(size) {}

  Context* context_ = nullptr;
  Memory memory_ = Memory::kDevice;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Memory of a device, and what other contexts, of this process or of another on this machine, map
// it by. It is there as long as one of them has it mapped, also after the context that allocated it
// is gone.
struct SharedMemory {
  Buffer buffer;
  Fd fd;
};

// What one of a context's streams was given last, so that the host, or the other stream, can wait
// for it alone. Of one context.
class Event {
 public:
  virtual ~Event() = default;
};

// What a network device does with memory of a device; kWritesForAll: what it writes is read by
// other devices too, which map that memory. And as what its library has to know such memory.
enum class NetworkUse : unsigned char { kReads, kWrites, kWritesForAll };
enum class NetworkMemory : unsigned char { kHost, kCuda };

// A word of the host's memory by which streams of several devices, of this process or of others,
// wait for each other without a host: it counts up. Of two counts the later one is that less than
// 2^63 steps ahead.
using Flag = std::atomic<uint64_t>;
static_assert(sizeof(Flag) == sizeof(uint64_t) && Flag::is_always_lock_free);
struct FlagCount {
  Flag* flag = nullptr;
  uint64_t count = 0;
};
inline bool HasReached(const FlagCount& awaited) {
  return static_cast<int64_t>(awaited.flag->load(std::memory_order_acquire) - awaited.count) >= 0;
}

// Launches that were recorded once, to be queued again as one. Of one context.
class Graph {
 public:
  virtual ~Graph() = default;
};

// What a context has done since it was made. A step changes none of `allocations` and `graphs`.
struct ContextCounts {
  uint64_t allocations = 0;
  uint64_t copies_in = 0;
  uint64_t copies_out = 0;
  uint64_t bytes_in = 0;   // from the host to the device
  uint64_t bytes_out = 0;  // from the device to the host
  uint64_t waits = 0;      // of the host for the steps or an event
  // By the stream of loads.
  uint64_t loads = 0;
  uint64_t bytes_loaded = 0;
  uint64_t graphs = 0;   // recorded
  uint64_t replays = 0;  // of graphs
};

// What a device has, and what of it is to be had.
struct DeviceMemory {
  uint64_t total = 0;
  uint64_t free = 0;  // no process has it
  uint64_t held = 0;  // by the context, what was given back and is kept for later included
};

// Everything queued runs in the order of its queuing, but for loads, which have a stream of their
// own: beside steps they are ordered by StreamWait alone. Nothing but Wait, Await, RecordGraph and
// the taking and giving back of memory waits for the device, and memory is taken, and graphs
// recorded, before steps begin.
//
// Thread-safe; what two threads queue at once runs in either order. A context outlives its buffers,
// events and graphs.
class Context {
 public:
  Context() = default;
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Whether the device's memory is the host's: a copy between the two is then none at all, and
  // what an operation reads is whatever the host reads.
  virtual bool is_host() const = 0;
  // What the bits of this device's operations depend on beside the kernels, as the numerics class
  // has it: "cuda sm_90a". Empty for the host, whose instruction set is the stream's.
  virtual std::string numerics() const = 0;
  // Where the device is on the machine's PCI bus, domain, bus, device and function in hexadecimal:
  // "0000:3B:00.0". Empty: the host, or it does not say.
  virtual std::string pci_address() const = 0;
  // As its driver has it: "NVIDIA H100 80GB HBM3". Empty: the host, or it does not say.
  virtual std::string name() const { return {}; }
  // For operations on this device. The host's has no team: an instance that computes there brings
  // one.
  virtual Stream stream() = 0;
  Place place() { return {stream(), *this}; }

  // Of the device; pinned: of the host, so that copies run beside the host. Content unknown,
  // aligned for every operation (256 bytes; on the host 64). ResourceExhausted: there is not so
  // much left. Zero bytes are an empty buffer.
  Result<Buffer> Allocate(size_t bytes) { return AllocateFrom(Buffer::Memory::kDevice, bytes); }
  Result<Buffer> AllocatePinned(size_t bytes) {
    return AllocateFrom(Buffer::Memory::kPinned, bytes);
  }
  // Of the device, for Load: it is there, and goes again, in the order of loads. Going waits for
  // what was queued before, loads and steps, and holds neither steps nor the host up.
  Result<Buffer> AllocateForLoad(size_t bytes) {
    return AllocateFrom(Buffer::Memory::kLoaded, bytes);
  }
  // Of the device, where others may map it. FailedPrecondition: the device has none such, for the
  // reason that it says; on the host, whose processes share memory otherwise.
  Result<SharedMemory> AllocateShared(size_t bytes);
  // What another context has taken by AllocateShared, as many bytes, for operations of this one.
  // FailedPrecondition: this device cannot reach it. InvalidArgument: no such memory, or less of
  // it.
  Result<Buffer> MapShared(const Fd& fd, size_t bytes);
  // The same where an object takes many: the first refusal since the last TakeFailure is kept, and
  // an empty buffer given.
  Buffer AllocateOrNote(size_t bytes) { return Note(Allocate(bytes)); }
  Buffer AllocatePinnedOrNote(size_t bytes) { return Note(AllocatePinned(bytes)); }
  // Of the device, with a copy of what `host` holds now; waits for it.
  Buffer AllocateCopyOrNote(const void* host, size_t bytes);
  // Keeps it, if it is one and the first.
  void NoteFailure(Status status);
  bool has_noted_failure() const;
  Status TakeFailure();

  // Queued. `host` must live, and as the source not change, until the stream has come this far.
  Status CopyIn(void* device, const void* host, size_t bytes);
  Status CopyOut(void* host, const void* device, size_t bytes);
  // Queued after the loads before, beside the steps. `device` lies in what AllocateForLoad gave,
  // `pinned` in what AllocatePinned did, unchanged until it has run. A refusal is the load's alone:
  // what it means for the device the next wait tells.
  Status Load(void* device, const void* pinned, size_t bytes);
  // From device to device; no overlap.
  virtual Status CopyWithin(void* to, const void* from, size_t bytes) = 0;
  // Until everything that was queued has run. Internal: what a kernel before has done wrong.
  Status Wait();

  virtual Result<std::unique_ptr<Event>> MakeEvent() = 0;
  // The event stands for everything queued until now, without loads.
  virtual Status Record(Event& event) = 0;
  // The event stands for every load queued until now.
  virtual Status RecordLoads(Event& event) = 0;
  // The stream of the steps waits for the loads that the event stands for: what is queued from now
  // on runs after them. The host does not wait.
  Status StreamWait(Event& event);
  // The host waits until that has run; returns at once for an event that was never recorded.
  Status Await(Event& event);
  // Whether Await would return at once. Does not wait.
  Result<bool> Query(Event& event);

  // Lets the device signal and await the flags that lie in such memory of the host, for as long as
  // there is the buffer, which is that memory; the memory outlives it. Several contexts may be
  // shown the same. FailedPrecondition: this device can do neither, for the reason that it says; on
  // the host, where what is queued has run.
  Result<Buffer> RegisterFlags(std::byte* begin, size_t bytes);
  // Queued: once everything before has run, each flag gets its count. A reader that sees the count
  // also sees what was written before it, in the memory of any device.
  Status Signal(std::span<const FlagCount> flags);
  // Queued: the stream waits until each flag has its count. What is queued from now on sees what
  // was written before the flag was signalled. The device waits, not a kernel. Some device or host
  // must signal each flag in the end.
  Status StreamWaitFlags(std::span<const FlagCount> flags);

  // Memory that AllocateShared has given, for network devices: what their library is told of, for
  // as long as there is the buffer; the memory outlives it. Host code touches neither.
  // FailedPrecondition: none reaches this memory, for the reason that it says.
  Result<Buffer> RegisterForNetwork(const SharedMemory& memory, NetworkUse use);
  virtual NetworkMemory network_memory() const = 0;
  // What network devices have written by now to memory registered for that use, as the host was
  // told by their library, is there for what is queued from now on; kWritesForAll: also for what
  // other devices do once they have seen a flag that is signalled from now on.
  virtual Status AdmitNetwork(NetworkUse use) = 0;

  // Of which TimeBetween can tell when they came.
  virtual Result<std::unique_ptr<Event>> MakeTimedEvent() = 0;
  // Of the device's clock, from one recorded event that has come to a later one that has.
  virtual Result<Seconds> TimeBetween(Event& from, Event& to) = 0;

  // What `operations` starts on the stream that it is given, which runs nothing: launches alone, no
  // copies, no waits. What the host thinks meanwhile, arguments and launch plans, is what each
  // replay has; what the device reads is what lies there then. Beside steps, on any thread. Takes
  // memory of the device, which ContextCounts does not count. FailedPrecondition: on the host,
  // where an operation is a call.
  Result<std::unique_ptr<Graph>> RecordGraph(FunctionRef<Status(const Stream&)> operations);
  // Queues all of it.
  Status Replay(Graph& graph);

  // Has what such memory of the host is copied from and to run beside the host, as for memory of
  // AllocatePinned: it waits for none of these copies, which else it may. For as long as there is
  // the buffer, which is that memory; the memory outlives it. Whole pages, or others' bytes of the
  // first and last are pinned, too; several contexts may pin the same. May hold up a device that
  // computes. FailedPrecondition: it cannot be; on the host, where a copy is none.
  Result<Buffer> Pin(std::byte* begin, size_t bytes);

  // Before others have it: `on_hang` hears of a host that waits for the device for longer than
  // `most` in one call here: for what was queued, in a copy, for memory, as that is given back, and
  // at its end. Launches of kernels are none of its calls, and taking and giving pinned memory is
  // the host's own work.
  void WatchWaits(Seconds most, WaitWatch::OnHang on_hang) {
    watch_ = std::make_unique<WaitWatch>(most, std::move(on_hang));
  }

  // Now. FailedPrecondition: on the host, whose processes have more to say of it
  // (common/process_room.h).
  virtual Result<DeviceMemory> memory() = 0;

  ContextCounts counts() const;
  // Whether a copy or a wait has ever failed. A GPU does nothing any more in a process where a
  // kernel has failed: that process is to end.
  bool has_failed() const { return has_failed_; }

 protected:
  // There while the host may wait for the device.
  WaitWatch::Wait Watched(const char* what) { return {watch_.get(), what}; }
  static constexpr const char* kGivesBack = "giving memory back";

  virtual Result<std::byte*> AllocateDeviceMemory(size_t bytes) = 0;
  virtual void FreeDevice(std::byte* data, size_t bytes) = 0;
  virtual Result<std::byte*> AllocateLoadMemory(size_t bytes) = 0;
  virtual void FreeLoaded(std::byte* data, size_t bytes) = 0;
  virtual Result<std::byte*> AllocatePinnedMemory(size_t bytes) = 0;
  virtual void FreePinned(std::byte* data, size_t bytes) = 0;
  // Its memory, and in `fd` what it is mapped by.
  virtual Result<std::byte*> AllocateSharedMemory(size_t bytes, Fd& fd) = 0;
  virtual void FreeShared(std::byte* data, size_t bytes) = 0;
  virtual Result<std::byte*> Map(const Fd& fd, size_t bytes) = 0;
  virtual void Unmap(std::byte* data, size_t bytes) = 0;
  virtual Status QueueIn(void* device, const void* host, size_t bytes) = 0;
  virtual Status QueueOut(void* host, const void* device, size_t bytes) = 0;
  virtual Status QueueLoad(void* device, const void* pinned, size_t bytes) = 0;
  virtual Status QueueWait(Event& event) = 0;
  virtual Result<std::unique_ptr<Graph>> Capture(FunctionRef<Status(const Stream&)> operations) = 0;
  virtual Status QueueGraph(Graph& graph) = 0;
  virtual Status WaitForStream() = 0;
  virtual Status WaitForEvent(Event& event) = 0;
  virtual Result<bool> QueryEvent(Event& event) = 0;
  virtual Status RegisterFlagPages(std::byte* begin, size_t bytes) = 0;
  virtual void UnregisterFlagPages(std::byte* begin, size_t bytes) = 0;
  virtual Status PinHere(std::byte* begin, size_t bytes) = 0;
  virtual void Unpin(std::byte* begin, size_t bytes) = 0;
  virtual Result<std::byte*> OpenToNetwork(const SharedMemory& memory, NetworkUse use) = 0;
  virtual void CloseToNetwork(std::byte* data, size_t bytes) = 0;
  virtual Status QueueSignal(std::span<const FlagCount> flags) = 0;
  virtual Status QueueWaitFlags(std::span<const FlagCount> flags) = 0;

 private:
  friend class Buffer;
  Result<Buffer> AllocateFrom(Buffer::Memory memory, size_t bytes);
  Buffer Note(Result<Buffer> taken);
  void GiveBack(const Buffer& buffer);
  Status Judge(Status status);

  std::unique_ptr<WaitWatch> watch_;
  std::atomic<uint64_t> allocations_{0};
  std::atomic<uint64_t> copies_in_{0};
  std::atomic<uint64_t> copies_out_{0};
  std::atomic<uint64_t> bytes_in_{0};
  std::atomic<uint64_t> bytes_out_{0};
  std::atomic<uint64_t> waits_{0};
  std::atomic<uint64_t> loads_{0};
  std::atomic<uint64_t> bytes_loaded_{0};
  std::atomic<uint64_t> graphs_{0};
  std::atomic<uint64_t> replays_{0};
  std::atomic<bool> has_failed_{false};
  mutable Mutex mu_;
  Status failure_ JANUS_GUARDED_BY(mu_);
};

// The memory of this process, for the reference and the CPU. Lives for ever.
Context& HostContext();

}  // namespace janus::kernels
