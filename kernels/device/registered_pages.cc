#include "kernels/device/registered_pages.h"

#include "common/check.h"

namespace janus::kernels {

Status RegisteredPages::Use(std::byte* begin, size_t bytes) {
  const MutexLock lock(mu_);
  const uintptr_t first = PageOf(begin);
  const uintptr_t last = PageOf(begin + bytes - 1);
  for (uintptr_t page = first; page <= last; page += page_bytes_) {
    Status used = UsePage(page);
    if (used.ok()) continue;
    DropPages(first, page);
    return used;
  }
  return OkStatus();
}

void RegisteredPages::Drop(std::byte* begin, size_t bytes) {
  const MutexLock lock(mu_);
  DropPages(PageOf(begin), PageOf(begin + bytes - 1) + page_bytes_);
}

Result<uint64_t> RegisteredPages::DeviceAddressOf(const void* byte) const {
  const uintptr_t page = PageOf(byte);
  const MutexLock lock(mu_);
  const auto found = pages_.find(page);
  if (found == pages_.end()) return Internal("host memory that no device was shown");
  return found->second.device_address + (reinterpret_cast<uintptr_t>(byte) - page);
}

Status RegisteredPages::UsePage(uintptr_t page) {
  if (const auto found = pages_.find(page); found != pages_.end()) {
    ++found->second.users;
    return OkStatus();
  }
  auto* const data = reinterpret_cast<std::byte*>(page);
  const Status registered = driver_.Register(data, page_bytes_);
  const bool is_ours = registered.ok();
  if (!is_ours && registered.code() != StatusCode::kAlreadyExists) return registered;
  Result<uint64_t> address = driver_.DeviceAddressOf(data);
  if (!address.ok()) {
    if (is_ours) driver_.Unregister(data);
    return std::move(address).status();
  }
  pages_.emplace(page, Page{1, is_ours, *address});
  return OkStatus();
}

void RegisteredPages::DropPages(uintptr_t begin, uintptr_t end) {
  for (uintptr_t page = begin; page < end; page += page_bytes_) {
    const auto found = pages_.find(page);
    JANUS_CHECK(found != pages_.end(), page);
    if (--found->second.users > 0) continue;
    if (found->second.is_ours) driver_.Unregister(reinterpret_cast<std::byte*>(page));
    pages_.erase(found);
  }
}

}  // namespace janus::kernels
