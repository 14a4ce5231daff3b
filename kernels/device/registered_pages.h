#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "common/mutex.h"
#include "common/status.h"

namespace janus::kernels {

// Pages of the host's memory that a driver has registered, so that its device reaches them. Each is
// registered once, while it has a user: a driver refuses a page that it has already, and ranges may
// share pages or be the same. The new pages of a range are registered as one stretch, because
// copies must not cross the end of one. A stretch stays whole while one of its pages has a user.
//
// A driver may wait for its device when it registers or releases a page, and block queries for
// addresses meanwhile. So a query here never waits for the driver.
//
// Thread-safe.
class RegisteredPages {
 public:
  class Driver {
   public:
    virtual ~Driver() = default;
    // Pages one after the other. AlreadyExists: another owner has registered one of them, and
    // releases it itself.
    virtual Status Register(std::byte* pages, size_t bytes) = 0;
    virtual void Unregister(std::byte* pages) = 0;
    // For a page that Register refuses with AlreadyExists: the end of what was registered with it,
    // at least the end of the page.
    virtual std::byte* EndOfOthers(std::byte* page) = 0;
    // The device's address of registered pages.
    virtual Result<uint64_t> DeviceAddressOf(std::byte* pages) = 0;
  };

  // The driver outlives it; the size of a page is a power of two.
  RegisteredPages(Driver& driver, size_t page_bytes) : driver_(driver), page_bytes_(page_bytes) {}

  // Registers the pages that a range lies in: all of them, or none with the driver's error.
  Status Use(std::byte* begin, size_t bytes);
  // Call it once for each successful Use of the range.
  void Drop(std::byte* begin, size_t bytes);
  // The device's address of a byte in a page with a user. Internal: the page has no user.
  Result<uint64_t> DeviceAddressOf(const void* byte) const;

 private:
  struct Stretch {
    std::byte* end = nullptr;
    int users = 0;
    bool is_ours = false;  // to unregister
    uint64_t device_address = 0;
  };
  using Stretches = std::map<std::byte*, Stretch>;  // by their begin

  // Adds a user to the stretch that contains `page` and returns its end. Null: no stretch does.
  std::byte* UseStretch(std::byte* page) JANUS_REQUIRES(changing_);
  // Registers pages from `page` on, up to `end` or the next stretch. Returns where it stopped.
  Result<std::byte*> AddStretch(std::byte* page, std::byte* end) JANUS_REQUIRES(changing_);
  // Removes a user of each stretch with pages of [begin, end).
  void DropStretches(std::byte* begin, std::byte* end) JANUS_REQUIRES(changing_);
  Stretches::const_iterator Find(const std::byte* byte) const JANUS_REQUIRES(mu_);
  size_t OffsetOf(const std::byte* byte) const {
    return reinterpret_cast<uintptr_t>(byte) & (page_bytes_ - 1);
  }
  // The first page of a range, and the end of its last page.
  std::byte* FirstPage(std::byte* begin) const { return begin - OffsetOf(begin); }
  std::byte* EndOfPages(std::byte* begin, size_t bytes) const {
    return FirstPage(begin + bytes - 1) + page_bytes_;
  }

  Driver& driver_;
  const size_t page_bytes_;
  Mutex changing_;    // for as long as the driver takes
  mutable Mutex mu_;  // within
  Stretches stretches_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::kernels
