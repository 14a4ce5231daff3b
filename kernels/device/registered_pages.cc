#include "kernels/device/registered_pages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/check.h"

namespace janus::kernels {

Status RegisteredPages::Use(std::byte* begin, size_t bytes) {
  const MutexLock changing(changing_);
  std::byte* const first = FirstPage(begin);
  std::byte* const end = EndOfPages(begin, bytes);
  for (std::byte* at = first; at < end;) {
    if (std::byte* const behind = UseStretch(at); behind != nullptr) {
      at = behind;
      continue;
    }
    Result<std::byte*> behind = AddStretch(at, end);
    if (!behind.ok()) {
      DropStretches(first, at);
      return std::move(behind).status();
    }
    at = *behind;
  }
  return OkStatus();
}

void RegisteredPages::Drop(std::byte* begin, size_t bytes) {
  const MutexLock changing(changing_);
  DropStretches(FirstPage(begin), EndOfPages(begin, bytes));
}

Result<uint64_t> RegisteredPages::DeviceAddressOf(const void* byte) const {
  const auto* const at = static_cast<const std::byte*>(byte);
  const MutexLock lock(mu_);
  const auto found = Find(at);
  if (found == stretches_.end()) return Internal("host memory that no device was shown");
  return found->second.device_address + static_cast<uint64_t>(at - found->first);
}

RegisteredPages::Stretches::const_iterator RegisteredPages::Find(const std::byte* byte) const {
  const auto behind = stretches_.upper_bound(const_cast<std::byte*>(byte));
  if (behind == stretches_.begin()) return stretches_.end();
  const auto before = std::prev(behind);
  return byte < before->second.end ? before : stretches_.end();
}

std::byte* RegisteredPages::UseStretch(std::byte* page) {
  const MutexLock lock(mu_);
  const auto found = Find(page);
  if (found == stretches_.end()) return nullptr;
  Stretch& stretch = stretches_[found->first];
  ++stretch.users;
  return stretch.end;
}

Result<std::byte*> RegisteredPages::AddStretch(std::byte* page, std::byte* end) {
  {
    const MutexLock lock(mu_);
    if (const auto next = stretches_.upper_bound(page); next != stretches_.end()) {
      end = std::min(end, next->first);
    }
  }
  Status registered = driver_.Register(page, static_cast<size_t>(end - page));
  if (registered.code() == StatusCode::kAlreadyExists) {
    // Another owner has registered some of these pages. Register this one alone, or skip the other
    // owner's pages from it on.
    std::byte* const behind = page + page_bytes_;
    registered = driver_.Register(page, page_bytes_);
    end = registered.ok() ? behind : std::clamp(driver_.EndOfOthers(page), behind, end);
  }
  const bool is_ours = registered.ok();
  if (!is_ours && registered.code() != StatusCode::kAlreadyExists) return registered;
  Result<uint64_t> address = driver_.DeviceAddressOf(page);
  if (!address.ok()) {
    if (is_ours) driver_.Unregister(page);
    return std::move(address).status();
  }
  const MutexLock lock(mu_);
  stretches_.emplace(page, Stretch{end, 1, is_ours, *address});
  return end;
}

void RegisteredPages::DropStretches(std::byte* begin, std::byte* end) {
  for (std::byte* at = begin; at < end;) {
    std::byte* unregistered = nullptr;
    {
      const MutexLock lock(mu_);
      const auto found = Find(at);
      JANUS_CHECK(found != stretches_.end(), at);
      at = found->second.end;
      if (--stretches_[found->first].users > 0) continue;
      if (found->second.is_ours) unregistered = found->first;
      stretches_.erase(found);
    }
    if (unregistered != nullptr) driver_.Unregister(unregistered);
  }
}

}  // namespace janus::kernels
