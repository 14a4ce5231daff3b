#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "common/check.h"

namespace janus {

// Uninitialised memory aligned for vectors and cache lines (64 bytes). Movable.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)))),
        size_(bytes) {}

  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace janus
