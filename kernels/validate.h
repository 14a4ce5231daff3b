#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/dtype.h"
#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels {

// Collects the first thing wrong with the arguments of one operation, as "Linear: rows is -1, ...".
// Confined to one thread.
class Validator {
 public:
  explicit Validator(std::string_view operation) : operation_(operation) {}

  Validator& NotNull(const void* pointer, std::string_view name) {
    return pointer != nullptr ? *this : Fail(std::string(name) + " is null");
  }
  Validator& InRange(int64_t value, int64_t lowest, int64_t highest, std::string_view name) {
    if (value >= lowest && value <= highest) return *this;
    return Fail(std::string(name) + " is " + std::to_string(value) + ", wanted " +
                std::to_string(lowest) + ".." + std::to_string(highest));
  }
  Validator& OneOf(DType type, std::initializer_list<DType> allowed, std::string_view name) {
    for (const DType candidate : allowed) {
      if (type == candidate) return *this;
    }
    return Fail(std::string(name) + " is " + std::string(ToString(type)));
  }
  Validator& True(bool holds, std::string_view otherwise) {
    return holds ? *this : Fail(std::string(otherwise));
  }
  Status Done() && { return std::move(status_); }

 private:
  Validator& Fail(std::string what) {
    if (status_.ok()) status_ = InvalidArgument(std::string(operation_) + ": " + std::move(what));
    return *this;
  }

  std::string_view operation_;
  Status status_;
};

// Bounds one axis so that products of two axes and an element size fit in 64 bits.
inline constexpr int64_t kMaxExtent = int64_t{1} << 31;

inline constexpr std::initializer_list<DType> kRowTypes = {DType::kFloat32, DType::kBFloat16};
inline constexpr std::initializer_list<DType> kWeightTypes = {DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat16};
// For the weights of routed experts only.
inline constexpr std::initializer_list<DType> kExpertWeightTypes = {
    DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kMxfp4};

// For caches.
inline constexpr std::initializer_list<DType> kCacheTypes = {DType::kFloat32, DType::kBFloat16,
                                                             DType::kFloat8E4M3};

// A CPU stream without a team, or a value outside the enums.
inline Status ValidateStream(std::string_view operation, const Stream& stream) {
  const bool cpu = stream.device == Device::kCpu;
  return std::move(Validator(operation)
                       .InRange(static_cast<int>(stream.device), 0, 2, "stream.device")
                       .InRange(static_cast<int>(stream.isa), 0, 2, "stream.isa")
                       .True(!cpu || stream.team != nullptr, "stream.team is null on the CPU"))
      .Done();
}

// What the pages of any cache must satisfy; `bytes`: of a page. Elements, and the scales of fp8,
// are read in place, and a GPU reads only at multiples of their size.
inline Validator ValidatePages(Validator validator, const void* pages, int64_t num_pages,
                               int64_t stride_bytes, DType dtype, int64_t bytes) {
  const int64_t unit = dtype == DType::kBFloat16 ? 2 : 4;
  return validator.InRange(num_pages, 1, kMaxExtent, "cache.num_pages")
      .OneOf(dtype, kCacheTypes, "cache.dtype")
      .True(stride_bytes == 0 || stride_bytes >= bytes,
            "cache.page_stride_bytes is shorter than a page")
      .NotNull(pages, "cache.pages")
      .True(stride_bytes % unit == 0,
            "cache.page_stride_bytes is not a multiple of 4 (BFloat16: of 2)")
      .True(reinterpret_cast<uintptr_t>(pages) % static_cast<uintptr_t>(unit) == 0,
            "cache.pages is not aligned to 4 bytes (BFloat16: to 2)");
}

// What every operation requires of a cache of keys and values.
inline Validator ValidateKvCache(Validator validator, const KvCache& cache) {
  validator.InRange(cache.kv_heads, 1, kMaxExtent, "cache.kv_heads")
      .InRange(cache.head_dim, 1, kMaxHeadDim, "cache.head_dim");
  return ValidatePages(std::move(validator), cache.pages, cache.num_pages, cache.page_stride_bytes,
                       cache.dtype, KvPageBytes(cache.dtype, cache.kv_heads, cache.head_dim));
}

// What every operation requires of a latent cache.
inline Validator ValidateLatentCache(Validator validator, const LatentCache& cache) {
  validator.InRange(cache.rank, 1, kMaxLatentRank, "cache.rank")
      .InRange(cache.rope, 1, kMaxHeadDim, "cache.rope");
  return ValidatePages(std::move(validator), cache.pages, cache.num_pages, cache.page_stride_bytes,
                       cache.dtype, LatentPageBytes(cache.dtype, cache.rank, cache.rope));
}

// Rows of a paged cache. The host does not read a device's memory.
inline Status ValidateKvRows(std::string_view operation, const Stream& stream, const KvRow* rows,
                             int64_t count) {
  if (stream.device == Device::kCuda) return OkStatus();
  for (int64_t t = 0; t < count; ++t) {
    JANUS_RETURN_IF_ERROR(
        std::move(Validator(operation)
                      .NotNull(rows[t].block_table, "block_table of a row")
                      .InRange(rows[t].position, 0, kMaxExtent, "position of a row"))
            .Done());
  }
  return OkStatus();
}

}  // namespace janus::kernels
