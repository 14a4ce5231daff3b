#pragma once

// The bandwidth of this machine's memory, measured in the same run as the times to compare.

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "bench/measure.h"
#include "common/check.h"
#include "common/dtype.h"
#include "kernels/team.h"

namespace janus::bench {

inline constexpr int64_t kRotation = int64_t{768} << 20;  // bytes: 24 times a last-level cache of
                                                          // 32 MB

// Memory full of small numbers that are valid in every format.
class Arena {
 public:
  Arena() : bytes_(static_cast<unsigned char*>(std::aligned_alloc(4096, kRotation)), &std::free) {
    std::mt19937_64 random(1);
    std::vector<uint16_t> pattern(1 << 16);
    for (uint16_t& x : pattern) {
      x = ToBFloat16((static_cast<float>(random() % 2048) - 1024.0f) / 16384.0f);
    }
    const size_t block = pattern.size() * 2;
    for (size_t at = 0; at + block <= static_cast<size_t>(kRotation); at += block) {
      std::memcpy(bytes_.get() + at, pattern.data(), block);
    }
  }
  // The i-th piece of `bytes` bytes, wrapping. It starts 8 bytes past a cache line, as in a
  // checkpoint file.
  const unsigned char* Piece(int64_t i, int64_t bytes) const {
    return bytes_.get() + i % ((kRotation - 8) / bytes) * bytes + 8;
  }
  const unsigned char* data() const { return bytes_.get(); }

 private:
  std::unique_ptr<unsigned char, decltype(&std::free)> bytes_;
};

// GB/s at which the team can read memory. It sums the memory, so that no read is skipped, and
// prefetches well ahead. Takes the best tenth of the runs.
__attribute__((target("avx2"))) inline double ReadBandwidth(kernels::Team& team,
                                                            const Arena& arena) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  std::vector<int64_t> sums(64);
  const Spread spread = Measure(5, 0.4, [&](int64_t i) {
    const unsigned char* piece = arena.Piece(i, kBytes);
    team.Run([&](int part, int parts) __attribute__((target("avx2"))) {
      const kernels::Range range = kernels::PartOf(kBytes / 256, part, parts);
      __m256i sum[8] = {};
      for (int64_t block = range.begin; block < range.end; ++block) {
        for (int j = 0; j < 256; j += 64) {
          _mm_prefetch(piece + block * 256 + j + 16384, _MM_HINT_T1);
        }
        for (int j = 0; j < 8; ++j) {
          const auto* at = reinterpret_cast<const __m256i*>(piece + block * 256 + j * 32);
          sum[j] = _mm256_add_epi32(sum[j], _mm256_loadu_si256(at));
        }
      }
      for (int j = 1; j < 8; ++j) sum[0] = _mm256_add_epi32(sum[0], sum[j]);
      sums[static_cast<size_t>(part)] += _mm256_extract_epi64(sum[0], 0);
    });
  });
  JANUS_CHECK(sums[0] != 1);  // keeps the sums alive
  return static_cast<double>(kBytes) / spread.p10 / 1e9;
}

}  // namespace janus::bench
