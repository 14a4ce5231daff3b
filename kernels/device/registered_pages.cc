#include "kernels/device/registered_pages.h"

#include <utility>

#include "common/check.h"

namespace janus::kernels {

Status RegisteredPages::Use(std::byte* begin, size_t bytes) {
  const MutexLock changing(changing_);
  std::byte* const first = FirstPage(begin);
  const std::byte* const end = EndOfPages(begin, bytes);
  for (std::byte* page = first; page < end; page += page_bytes_) {
    Status used = UsePage(page);
    if (used.ok()) continue;
    DropPages(first, page);
    return used;
  }
  return OkStatus();
}

void RegisteredPages::Drop(std::byte* begin, size_t bytes) {
  const MutexLock changing(changing_);
  DropPages(FirstPage(begin), EndOfPages(begin, bytes));
}

Result<uint64_t> RegisteredPages::DeviceAddressOf(const void* byte) const {
  const auto* const at = static_cast<const std::byte*>(byte);
  const size_t offset = OffsetOf(at);
  const MutexLock lock(mu_);
  const auto found = pages_.find(at - offset);
  if (found == pages_.end()) return Internal("host memory that no device was shown");
  return found->second.device_address + offset;
}

Status RegisteredPages::UsePage(std::byte* page) {
  {
    const MutexLock lock(mu_);
    if (const auto found = pages_.find(page); found != pages_.end()) {
      ++found->second.users;
      return OkStatus();
    }
  }
  const Status registered = driver_.Register(page, page_bytes_);
  const bool is_ours = registered.ok();
  if (!is_ours && registered.code() != StatusCode::kAlreadyExists) return registered;
  Result<uint64_t> address = driver_.DeviceAddressOf(page);
  if (!address.ok()) {
    if (is_ours) driver_.Unregister(page);
    return std::move(address).status();
  }
  const MutexLock lock(mu_);
  pages_.emplace(page, Page{1, is_ours, *address});
  return OkStatus();
}

void RegisteredPages::DropPages(std::byte* begin, const std::byte* end) {
  for (std::byte* page = begin; page < end; page += page_bytes_) DropPage(page);
}

void RegisteredPages::DropPage(std::byte* page) {
  {
    const MutexLock lock(mu_);
    const auto found = pages_.find(page);
    JANUS_CHECK(found != pages_.end(), page);
    if (--found->second.users > 0) return;
    const bool is_ours = found->second.is_ours;
    pages_.erase(found);
    if (!is_ours) return;
  }
  driver_.Unregister(page);
}

}  // namespace janus::kernels
