#pragma once

// How calls go round an arena, so that none finds in a cache what another left there.

#include <algorithm>
#include <cstdint>

#include "common/check.h"

namespace janus::bench {

// What is read between two reads of the same bytes, at the least: caches are a tenth of it.
inline constexpr int64_t kRotatedBytes = int64_t{512} << 20;

inline void CheckRotates(int64_t bytes) {
  JANUS_CHECK(bytes >= kRotatedBytes, bytes);
}

// So many calls that each read as many bytes as no other of them come to at least that; not fewer
// than `least`.
inline int64_t CallsOfATurn(int64_t bytes, int64_t least) {
  return std::max(least, (kRotatedBytes + bytes - 1) / bytes);
}

// Of so many bytes, from the first on and, behind the last, from the first again.
class Rotation {
 public:
  explicit Rotation(int64_t bytes) : bytes_(bytes) {}

  // Where the next call's bytes begin, a multiple of 256, behind those of all calls before.
  int64_t Next(int64_t bytes) {
    const int64_t room = (bytes + 255) / 256 * 256;
    CheckRotates(bytes_ - 2 * room);
    int64_t at = (cursor_ + 255) / 256 * 256;
    if (at + room > bytes_) at = 0;
    cursor_ = at + room;
    return at;
  }

  // The same in units of so many bytes, for a case whose calls take `of_case` of them one after the
  // other, the first behind the last, and again from the first of the case on: its first unit.
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
