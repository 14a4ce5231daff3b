#include "kernels/device/staging.h"

#include <utility>

namespace janus::kernels {

Staging::Staging(Context& context, size_t bytes)
    : context_(&context),
      host_is_device_(context.is_host()),
      device_(context.AllocateOrNote(bytes)) {
  if (!host_is_device_) host_ = context.AllocatePinnedOrNote(bytes);
}

Status Staging::CheckAllocated() const {
  return device_.data() != nullptr && host_.data() != nullptr
             ? OkStatus()
             : ResourceExhausted("a copy of what there was no memory for");
}

Status Staging::Reopen() {
  if (!pushed_) return OkStatus();
  pushed_ = false;
  return context_->Await(*read_);
}

Status Staging::Push(size_t offset, size_t bytes) {
  if (host_is_device_) return OkStatus();
  JANUS_RETURN_IF_ERROR(CheckAllocated());
  if (read_ == nullptr) {
    JANUS_ASSIGN_OR_RETURN(read_, context_->MakeEvent());
  }
  JANUS_RETURN_IF_ERROR(context_->CopyIn(device() + offset, host() + offset, bytes));
  pushed_ = true;
  return context_->Record(*read_);
}

Status Staging::Pull(size_t offset, size_t bytes) {
  if (host_is_device_) return OkStatus();
  JANUS_RETURN_IF_ERROR(CheckAllocated());
  return context_->CopyOut(host() + offset, device() + offset, bytes);
}

}  // namespace janus::kernels
