#include "kernels/device/context.h"

#include <utility>

#include "common/check.h"

namespace janus::kernels {

Buffer::Buffer(Buffer&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)),
      memory_(other.memory_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) context_->GiveBack(*this);
}

Result<Buffer> Context::AllocateFrom(Buffer::Memory memory, size_t bytes) {
  // Not watched: pinning is work of the host, and takes long for large pieces.
  const bool is_pinned = memory == Buffer::Memory::kPinned;
  const WaitWatch::Wait watched(is_pinned ? nullptr : watch_.get(), "taking memory");
  if (bytes == 0) return Buffer();
  Result<std::byte*> data = [&] {
    switch (memory) {
      case Buffer::Memory::kDevice:
        return AllocateDeviceMemory(bytes);
      case Buffer::Memory::kLoaded:
        return AllocateLoadMemory(bytes);
      case Buffer::Memory::kPinned:
      case Buffer::Memory::kShared:  // allocated by other functions
      case Buffer::Memory::kMapped:
      case Buffer::Memory::kRegistered:
      case Buffer::Memory::kPinnedHere:
      case Buffer::Memory::kNetwork:
        break;
    }
    return AllocatePinnedMemory(bytes);
  }();
  if (!data.ok()) return std::move(data).status();
  ++allocations_;
  return Buffer(this, memory, *data, bytes);
}

Result<SharedMemory> Context::AllocateShared(size_t bytes) {
  const WaitWatch::Wait watched = Watched("taking memory");
  if (bytes == 0) return InvalidArgument("no memory of no bytes is shared");
  Fd fd;
  JANUS_ASSIGN_OR_RETURN(std::byte* const data, AllocateSharedMemory(bytes, fd));
  ++allocations_;
  return SharedMemory{Buffer(this, Buffer::Memory::kShared, data, bytes), std::move(fd)};
}

Result<Buffer> Context::MapShared(const Fd& fd, size_t bytes) {
  const WaitWatch::Wait watched = Watched("mapping memory");
  if (!fd || bytes == 0) return InvalidArgument("no memory of another device is given");
  JANUS_ASSIGN_OR_RETURN(std::byte* const data, Map(fd, bytes));
  ++allocations_;
  return Buffer(this, Buffer::Memory::kMapped, data, bytes);
}

Result<Buffer> Context::RegisterFlags(std::byte* begin, size_t bytes) {
  const WaitWatch::Wait watched = Watched("showing flags");
  JANUS_CHECK(bytes > 0 && reinterpret_cast<uintptr_t>(begin) % sizeof(Flag) == 0, bytes);
  JANUS_RETURN_IF_ERROR(RegisterFlagPages(begin, bytes));
  return Buffer(this, Buffer::Memory::kRegistered, begin, bytes);
}

Result<Buffer> Context::Pin(std::byte* begin, size_t bytes) {
  JANUS_CHECK(bytes > 0, begin);
  JANUS_RETURN_IF_ERROR(PinHere(begin, bytes));
  return Buffer(this, Buffer::Memory::kPinnedHere, begin, bytes);
}

Result<Buffer> Context::RegisterForNetwork(const SharedMemory& memory, NetworkUse use) {
  JANUS_CHECK(memory.fd.get() >= 0 && memory.buffer.size() > 0, memory.buffer.size());
  JANUS_ASSIGN_OR_RETURN(std::byte* const data, OpenToNetwork(memory, use));
  return Buffer(this, Buffer::Memory::kNetwork, data, memory.buffer.size());
}

void Context::GiveBack(const Buffer& buffer) {
  // Not watched: unpinning large pieces is long work of the host. Its waits are watched alone.
  const bool is_pinned = buffer.memory_ == Buffer::Memory::kPinned;
  const WaitWatch::Wait watched(is_pinned ? nullptr : watch_.get(), kGivesBack);
  switch (buffer.memory_) {
    case Buffer::Memory::kDevice:
      return FreeDevice(buffer.data_, buffer.size_);
    case Buffer::Memory::kLoaded:
      return FreeLoaded(buffer.data_, buffer.size_);
    case Buffer::Memory::kPinned:
      return FreePinned(buffer.data_, buffer.size_);
    case Buffer::Memory::kShared:
      return FreeShared(buffer.data_, buffer.size_);
    case Buffer::Memory::kMapped:
      return Unmap(buffer.data_, buffer.size_);
    case Buffer::Memory::kRegistered:
      return UnregisterFlagPages(buffer.data_, buffer.size_);
    case Buffer::Memory::kPinnedHere:
      return Unpin(buffer.data_, buffer.size_);
    case Buffer::Memory::kNetwork:
      return CloseToNetwork(buffer.data_, buffer.size_);
  }
}

Buffer Context::Note(Result<Buffer> taken) {
  if (taken.ok()) return *std::move(taken);
  NoteFailure(std::move(taken).status());
  return {};
}

void Context::NoteFailure(Status status) {
  const MutexLock lock(mu_);
  if (failure_.ok()) failure_ = std::move(status);
}

bool Context::has_noted_failure() const {
  const MutexLock lock(mu_);
  return !failure_.ok();
}

Buffer Context::AllocateCopyOrNote(const void* host, size_t bytes) {
  Buffer copy = AllocateOrNote(bytes);
  if (copy.data() == nullptr) return copy;
  NoteFailure(CopyIn(copy.data(), host, bytes));
  NoteFailure(Wait());
  return copy;
}

Status Context::TakeFailure() {
  const MutexLock lock(mu_);
  return std::exchange(failure_, OkStatus());
}

Status Context::CopyIn(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return OkStatus();
  const WaitWatch::Wait watched = Watched("a copy");
  ++copies_in_;
  bytes_in_ += bytes;
  return Judge(QueueIn(device, host, bytes));
}

Status Context::CopyOut(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return OkStatus();
  const WaitWatch::Wait watched = Watched("a copy");
  ++copies_out_;
  bytes_out_ += bytes;
  return Judge(QueueOut(host, device, bytes));
}

Status Context::Load(void* device, const void* pinned, size_t bytes) {
  if (bytes == 0) return OkStatus();
  ++loads_;
  bytes_loaded_ += bytes;
  return QueueLoad(device, pinned, bytes);
}

Status Context::StreamWait(Event& event) {
  return Judge(QueueWait(event));
}

Result<std::unique_ptr<Graph>> Context::RecordGraph(FunctionRef<Status(const Stream&)> operations) {
  const WaitWatch::Wait watched = Watched("recording a graph");
  Result<std::unique_ptr<Graph>> graph = Capture(operations);
  if (graph.ok()) ++graphs_;
  return graph;
}

Status Context::Replay(Graph& graph) {
  const WaitWatch::Wait watched = Watched("queuing a graph");
  ++replays_;
  return Judge(QueueGraph(graph));
}

Status Context::Wait() {
  const WaitWatch::Wait watched = Watched("what was queued");
  ++waits_;
  return Judge(WaitForStream());
}

Status Context::Await(Event& event) {
  const WaitWatch::Wait watched = Watched("an event");
  ++waits_;
  return Judge(WaitForEvent(event));
}

Result<bool> Context::Query(Event& event) {
  Result<bool> has_come = QueryEvent(event);
  if (!has_come.ok()) has_failed_ = true;
  return has_come;
}

Status Context::Signal(std::span<const FlagCount> flags) {
  const WaitWatch::Wait watched = Watched("queuing flags");
  return flags.empty() ? OkStatus() : Judge(QueueSignal(flags));
}

Status Context::StreamWaitFlags(std::span<const FlagCount> flags) {
  const WaitWatch::Wait watched = Watched("queuing flags");
  return flags.empty() ? OkStatus() : Judge(QueueWaitFlags(flags));
}

Status Context::Judge(Status status) {
  if (!status.ok()) has_failed_ = true;
  return status;
}

ContextCounts Context::counts() const {
  return {allocations_, copies_in_, copies_out_,   bytes_in_, bytes_out_,
          waits_,       loads_,     bytes_loaded_, graphs_,   replays_};
}

Place::Place(const Stream& on) : Place(on, HostContext()) {}

}  // namespace janus::kernels
