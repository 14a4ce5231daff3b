#pragma once

#include <cstddef>
#include <memory>

#include "kernels/device/context.h"

namespace janus::kernels {

// A region that the host writes and the device reads, or the other way round: pinned host memory
// and memory of the device of the same size. On the host the two are one, and nothing is copied.
//
// Confined to the thread that queues.
class Staging {
 public:
  Staging() = default;
  // A failed allocation is noted in the context (Context::TakeFailure).
  Staging(Context& context, size_t bytes);

  std::byte* host() const { return host_is_device_ ? device_.data() : host_.data(); }
  std::byte* device() const { return device_.data(); }
  template <class T>
  T* host_at(size_t offset) const {
    return reinterpret_cast<T*>(host() + offset);
  }
  template <class T>
  T* device_at(size_t offset) const {
    return reinterpret_cast<T*>(device() + offset);
  }
  size_t size() const { return device_.size(); }

  // Call it before the host writes. Waits until the device has read the last Push.
  Status Reopen();
  // Queues the copy of bytes [offset, offset + bytes) to the device. ResourceExhausted: the region
  // has no memory. Then nothing is queued, because a copy to nowhere would mark the device as
  // failed.
  Status Push(size_t offset, size_t bytes);
  // Queues the copy of such bytes to the host, which reads them after Context::Wait. As Push.
  Status Pull(size_t offset, size_t bytes);

 private:
  Status CheckAllocated() const;

  Context* context_ = nullptr;
  bool host_is_device_ = true;
  bool pushed_ = false;  // since the last Reopen
  Buffer device_;
  Buffer host_;
  std::unique_ptr<Event> read_;
};

}  // namespace janus::kernels
