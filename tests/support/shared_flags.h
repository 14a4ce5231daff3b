#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <new>

#include "kernels/device/context.h"

namespace janus::kernels {

// Flags in a page of host memory that processes forked from this one share.
class SharedFlags {
 public:
  SharedFlags() {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    flags_ = static_cast<Flag*>(memory);
    for (size_t i = 0; i < kBytes / sizeof(Flag); ++i) new (&flags_[i]) Flag(0);
  }
  ~SharedFlags() { munmap(flags_, kBytes); }
  SharedFlags(const SharedFlags&) = delete;
  SharedFlags& operator=(const SharedFlags&) = delete;

  Flag* at(size_t i) { return &flags_[i]; }
  std::byte* data() { return reinterpret_cast<std::byte*>(flags_); }
  static constexpr size_t kBytes = 4096;

 private:
  Flag* flags_;
};

// For a single flag.
inline Status Signal(Context& device, Flag* flag, uint64_t count) {
  return device.Signal(std::array{FlagCount{flag, count}});
}
inline Status StreamWait(Context& device, Flag* flag, uint64_t count) {
  return device.StreamWaitFlags(std::array{FlagCount{flag, count}});
}

}  // namespace janus::kernels
