#pragma once

// How calls rotate through an arena, so that no call finds in the cache what another left there.

#include <algorithm>
#include <cstdint>

#include "common/check.h"

namespace janus::bench {

// The least number of bytes read between two reads of the same bytes: ten times a cache.
inline constexpr int64_t kRotatedBytes = int64_t{512} << 20;

inline void CheckRotates(int64_t bytes) {
  JANUS_CHECK(bytes >= kRotatedBytes, bytes);
}

// How many calls it takes to read kRotatedBytes if each call reads `bytes` new bytes; at least
// `least`.
inline int64_t CallsOfATurn(int64_t bytes, int64_t least) {
  return std::max(least, (kRotatedBytes + bytes - 1) / bytes);
}

// Rotates through `bytes` bytes: behind the last it begins again with the first.
class Rotation {
 public:
  explicit Rotation(int64_t bytes) : bytes_(bytes) {}

  // Where the next call's bytes begin: a multiple of 256, behind the bytes of all calls before.
  int64_t Next(int64_t bytes) {
    const int64_t room = (bytes + 255) / 256 * 256;
    CheckRotates(bytes_ - 2 * room);
    int64_t at = (cursor_ + 255) / 256 * 256;
    if (at + room > bytes_) at = 0;
    cursor_ = at + room;
    return at;
  }

  // The same in units of `unit_bytes`. The calls of a case use `of_case` units one after the other,
  // then begin again with the case's first. Returns the first unit of the next call.
  int64_t NextUnit(int64_t unit_bytes, int64_t of_case) {
    const int64_t units = bytes_ / unit_bytes;
    CheckRotates(std::min(of_case, units) * unit_bytes);
    const int64_t first = (cursor_ + unit_bytes - 1) / unit_bytes % units;
    cursor_ = (first + of_case) % units * unit_bytes;
    return first;
  }

 private:
  const int64_t bytes_;
  int64_t cursor_ = 0;
};

}  // namespace janus::bench
