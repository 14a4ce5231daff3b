// Dot products of rows with weight rows: the core of projections, gate and experts.
//
// One algorithm for every number of rows: output (m,n) is accumulated over k in sixteen lanes by
// fma, one accumulator per (m,n), lanes added by the fixed tree of lanes.h. Tiles only decide how
// many (m,n) share loaded registers. Lane layout: element k goes to lane k mod 16; where both sides
// are bf16, elements 2i and 2i+1 of each 32 go to lane i, odd ones first, which is what the
// hardware's bf16 dot product does. A tail is filled up with zeros.
//
// Bound by memory below about 10 rows (each weight is read once), by fma above.

#pragma once

#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// Most rows that are multiplied in one go; they should fit the second-level cache.
constexpr int kRowChunk = 64;
constexpr int64_t kRowChunkBytes = 384 << 10;
// Outputs that are computed before they are finished and stored together.
constexpr int kColumns = kLanes;
// How far ahead of use weights are requested; measured best on Zen 4 between 256 and 1024.
constexpr int kPrefetchBytes = 512;

template <DType kX, DType kW>
struct Natural {
  static constexpr int kStep = kLanes;
  static constexpr int64_t kXBytes = Bytes(kX);
  static constexpr int64_t kWBytes = Bytes(kW);
  using Operand = Reg;
  template <DType kType>
  static JANUS_INLINE Reg LoadPart(const char* p, int i) {
    p += i * kRegLanes * Bytes(kType);
    if constexpr (kType == DType::kFloat32) return RLoad(p);
    if constexpr (kType == DType::kBFloat16) return RLoadBf16(p);
    return RLoadF16(p);
  }
  static JANUS_INLINE Reg LoadX(const char* p, int i) { return LoadPart<kX>(p, i); }
  static JANUS_INLINE Reg LoadW(const char* p, int i) { return LoadPart<kW>(p, i); }
  static JANUS_INLINE Reg Madd(Reg acc, Reg x, Reg w) { return RFma(x, w, acc); }
};

struct Pairs {
  static constexpr int kStep = 2 * kLanes;
  static constexpr int64_t kXBytes = 2;
  static constexpr int64_t kWBytes = 2;
#if JANUS_BF16
  using Operand = __m512bh;
  static JANUS_INLINE Operand LoadX(const char* p, int) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
  static JANUS_INLINE Operand LoadW(const char* p, int) { return LoadX(p, 0); }
  static JANUS_INLINE Reg Madd(Reg acc, Operand x, Operand w) {
    return _mm512_dpbf16_ps(acc, x, w);
  }
#else
  struct Operand {
    Reg odd;
    Reg even;
  };
  static JANUS_INLINE Operand LoadX(const char* p, int i) {
    const RegI words = RCast(RLoad(p + i * kRegLanes * 4));
    return {RCast(IAnd(words, ISet(static_cast<int32_t>(0xffff0000u)))),
            RCast(IShiftLeft<16>(words))};
  }
  static JANUS_INLINE Operand LoadW(const char* p, int i) { return LoadX(p, i); }
  static JANUS_INLINE Reg Madd(Reg acc, Operand x, Operand w) {
    return RFma(x.even, w.even, RFma(x.odd, w.odd, acc));
  }
#endif
};

// out[m][n] for kM rows and kN weight rows; w_stride in bytes, `out` has kColumns per row.
template <class Kind, int kM, int kN>
__attribute__((noinline)) void DotTile(const char* const* x, const char* w, int64_t w_stride,
                                       int64_t k, float* out) {
  V16 acc[kM][kN];
  const char* x_m[kM];
  const char* w_n[kN];
  JANUS_UNROLL for (int m = 0; m < kM; ++m) {
    x_m[m] = x[m];
    JANUS_UNROLL for (int n = 0; n < kN; ++n) acc[m][n] = Zero();
  }
  JANUS_UNROLL for (int n = 0; n < kN; ++n) w_n[n] = w + n * w_stride;

  const auto step = [&](const char* const* xs, const char* const* ws, int64_t xo, int64_t wo)
      __attribute__((always_inline)) {
    JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
      typename Kind::Operand operand[kM];
      JANUS_UNROLL for (int m = 0; m < kM; ++m) operand[m] = Kind::LoadX(xs[m] + xo, i);
      JANUS_UNROLL for (int n = 0; n < kN; ++n) {
        const typename Kind::Operand weight = Kind::LoadW(ws[n] + wo, i);
        JANUS_UNROLL for (int m = 0; m < kM; ++m) {
          acc[m][n].r[i] = Kind::Madd(acc[m][n].r[i], operand[m], weight);
        }
      }
    }
  };

  const int64_t full = k / Kind::kStep * Kind::kStep;
  for (int64_t at = 0; at < full; at += Kind::kStep) {
    JANUS_UNROLL for (int n = 0; n < kN; ++n) {
      _mm_prefetch(w_n[n] + at * Kind::kWBytes + kPrefetchBytes, _MM_HINT_T0);
    }
    step(x_m, w_n, at * Kind::kXBytes, at * Kind::kWBytes);
  }
  if (const int64_t rest = k - full; rest > 0) {
    alignas(64) char x_tail[kM][Kind::kStep * Kind::kXBytes] = {};
    alignas(64) char w_tail[kN][Kind::kStep * Kind::kWBytes] = {};
    JANUS_UNROLL for (int m = 0; m < kM; ++m) {
      std::memcpy(x_tail[m], x_m[m] + full * Kind::kXBytes,
                  static_cast<size_t>(rest * Kind::kXBytes));
      x_m[m] = x_tail[m];
    }
    JANUS_UNROLL for (int n = 0; n < kN; ++n) {
      std::memcpy(w_tail[n], w_n[n] + full * Kind::kWBytes,
                  static_cast<size_t>(rest * Kind::kWBytes));
      w_n[n] = w_tail[n];
    }
    step(x_m, w_n, 0, 0);
  }

  JANUS_UNROLL for (int m = 0; m < kM; ++m) {
    if constexpr (kN % 4 == 0) {
      JANUS_UNROLL for (int n = 0; n < kN; n += 4) {
        _mm_storeu_ps(out + m * kColumns + n,
                      AddLanesOfFour(acc[m][n], acc[m][n + 1], acc[m][n + 2], acc[m][n + 3]));
      }
    } else {
      JANUS_UNROLL for (int n = 0; n < kN; ++n) out[m * kColumns + n] = AddLanes(acc[m][n]);
    }
  }
}

// kN weight rows against all rows of a chunk: they stay in the first-level cache meanwhile.
template <class Kind, int kMaxM, int kN>
JANUS_INLINE void DotRows(const char* const* x, int rows, const char* w, int64_t w_stride,
                          int64_t k, float* out) {
  int m = 0;
  for (; m + kMaxM <= rows; m += kMaxM) {
    DotTile<Kind, kMaxM, kN>(x + m, w, w_stride, k, out + m * kColumns);
  }
  if constexpr (kMaxM > 1) {
    for (; m < rows; ++m) DotTile<Kind, 1, kN>(x + m, w, w_stride, k, out + m * kColumns);
  }
}

// out[m][n], m < rows <= kRowChunk, n < columns <= kColumns: row x[m] . weight row n.
template <class Kind>
__attribute__((noinline)) void DotBlock(const char* const* x, int rows, const char* w,
                                        int64_t w_stride, int columns, int64_t k, float* out) {
#if JANUS_WIDE
  constexpr int kM = 4;
  constexpr int kN = 4;
  constexpr int kFewN = 8;
#else
  constexpr int kM = 2;
  constexpr int kN = 2;
  constexpr int kFewN = 4;
#endif
  int n = 0;
  if (rows == 1) {
    for (; n + kFewN <= columns; n += kFewN) {
      DotTile<Kind, 1, kFewN>(x, w + n * w_stride, w_stride, k, out + n);
    }
  } else {
    for (; n + kN <= columns; n += kN) {
      DotRows<Kind, kM, kN>(x, rows, w + n * w_stride, w_stride, k, out + n);
    }
  }
  for (; n < columns; ++n) DotRows<Kind, kM, 1>(x, rows, w + n * w_stride, w_stride, k, out + n);
}

using DotBlockFn = void (*)(const char* const* x, int rows, const char* w, int64_t w_stride,
                            int columns, int64_t k, float* out);

// The block function of a pair of formats; x is Float32 or BFloat16.
JANUS_INLINE DotBlockFn DotBlockOf(DType x, DType w) {
  if (x == DType::kFloat32) {
    if (w == DType::kFloat32) return DotBlock<Natural<DType::kFloat32, DType::kFloat32>>;
    if (w == DType::kBFloat16) return DotBlock<Natural<DType::kFloat32, DType::kBFloat16>>;
    return DotBlock<Natural<DType::kFloat32, DType::kFloat16>>;
  }
  if (w == DType::kFloat32) return DotBlock<Natural<DType::kBFloat16, DType::kFloat32>>;
  if (w == DType::kBFloat16) return DotBlock<Pairs>;
  return DotBlock<Natural<DType::kBFloat16, DType::kFloat16>>;
}

// Rows per chunk for rows of so many bytes.
JANUS_INLINE int64_t RowsPerChunk(int64_t row_bytes) {
  const int64_t fitting = kRowChunkBytes / row_bytes / 4 * 4;
  return fitting < 4 ? 4 : (fitting > kRowChunk ? kRowChunk : fitting);
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
