#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "common/mutex.h"
#include "common/status.h"

namespace janus::kernels {

// Pages of the host's memory that a driver has registered, so that its device reaches them: each
// once, while it has a user. A driver refuses a page that it has already, and ranges
// that are used may share pages or be the same. Of a range what no other has before is registered
// as one stretch, since copies may not reach over the end of one; it stays whole while a page
// of it has a user.
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
    // Of a page that Register refuses with AlreadyExists: where what was registered with it ends,
    // behind the page at least.
    virtual std::byte* EndOfOthers(std::byte* page) = 0;
    // Where the device has what was registered.
    virtual Result<uint64_t> DeviceAddressOf(std::byte* pages) = 0;
  };

  // The driver outlives it; pages are a power of two.
  RegisteredPages(Driver& driver, size_t page_bytes) : driver_(driver), page_bytes_(page_bytes) {}

  // The pages that a range lies in. All, or none and the driver's error.
  Status Use(std::byte* begin, size_t bytes);
  // Of a range that was used, once for each time.
  void Drop(std::byte* begin, size_t bytes);
  // Where the device has a byte of a page that is used. Internal: the page has no user.
  Result<uint64_t> DeviceAddressOf(const void* byte) const;

 private:
  struct Stretch {
    std::byte* end = nullptr;
    int users = 0;
    bool is_ours = false;  // to unregister
    uint64_t device_address = 0;
  };
  using Stretches = std::map<std::byte*, Stretch>;  // by their begin

  // One more user of the stretch that `page` lies in: its end. Null: there is none.
  std::byte* UseStretch(std::byte* page) JANUS_REQUIRES(changing_);
  // Registers from `page` on, up to `end` or the next stretch: where that ends.
  Result<std::byte*> AddStretch(std::byte* page, std::byte* end) JANUS_REQUIRES(changing_);
  // One user less of each stretch with pages of [begin, end).
  void DropStretches(std::byte* begin, std::byte* end) JANUS_REQUIRES(changing_);
  Stretches::const_iterator Find(const std::byte* byte) const JANUS_REQUIRES(mu_);
  size_t OffsetOf(const std::byte* byte) const {
    return reinterpret_cast<uintptr_t>(byte) & (page_bytes_ - 1);
  }
  // Of a range, and what is behind its last one.
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
