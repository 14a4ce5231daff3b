#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "common/dtype.h"
#include "kernels/element.h"

namespace janus::kernels {

// Elements of one format at a chosen misalignment, with a pattern before and behind them that no
// operation may change.
class GuardedArray {
 public:
  // `misalignment`: bytes past a 64-byte boundary, rounded up to whole elements: no operation takes
  // less, and a GPU faults.
  GuardedArray(DType type, int64_t count, int misalignment = 0)
      : type_(type), count_(count), bytes_(static_cast<size_t>(count * SizeOf(type)) + 4 * kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    const int64_t elements = (misalignment + SizeOf(type) - 1) / SizeOf(type);
    begin_ = (64 - address % 64) % 64 + kGuard + static_cast<size_t>(elements * SizeOf(type));
    std::memset(bytes_.data(), kPattern, bytes_.size());
    std::memset(data(), 0, data_bytes());
  }
  GuardedArray(const GuardedArray& other)
      : type_(other.type_), count_(other.count_), bytes_(other.bytes_.size()) {
    // As far from a 64-byte boundary, wherever the memory lies.
    const auto offset = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 64; };
    begin_ = kGuard + (64 + offset(other.data()) - offset(bytes_.data())) % 64;
    std::memset(bytes_.data(), kPattern, bytes_.size());
    std::memcpy(data(), other.data(), data_bytes());
  }
  GuardedArray(GuardedArray&&) = default;
  GuardedArray& operator=(GuardedArray&&) = default;

  DType type() const { return type_; }
  int64_t count() const { return count_; }
  void* data() { return bytes_.data() + begin_; }
  const void* data() const { return bytes_.data() + begin_; }
  float* floats() { return static_cast<float*>(data()); }
  size_t data_bytes() const { return static_cast<size_t>(count_ * SizeOf(type_)); }

  float at(int64_t i) const { return ReadElement(data(), type_, i); }
  void set(int64_t i, float value) { WriteElement(data(), type_, i, value); }
  GuardedArray& FillNormal(std::mt19937_64& random, float deviation = 1.0f) {
    std::normal_distribution<float> normal(0.0f, deviation);
    for (int64_t i = 0; i < count_; ++i) set(i, normal(random));
    return *this;
  }
  GuardedArray& Fill(float value) {
    for (int64_t i = 0; i < count_; ++i) set(i, value);
    return *this;
  }

  // NaN of any format, at any place.
  GuardedArray& FillWithNaN() {
    std::memset(data(), 0xFF, data_bytes());
    return *this;
  }

  bool GuardsAreIntact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + data_bytes()) && bytes_[i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPattern = 0xA5;

  DType type_;
  int64_t count_;
  std::vector<uint8_t> bytes_;
  size_t begin_ = 0;
};

}  // namespace janus::kernels
