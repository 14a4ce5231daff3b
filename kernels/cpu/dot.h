// Dot products of rows with weight rows: the core of projections, gate and experts.
//
// One algorithm for every number of rows: output (m,n) is accumulated over k in sixteen lanes by
// fma, one accumulator per (m,n), lanes added by the fixed tree of lanes.h. Tiles only decide how
// many (m,n) share loaded registers. Lane layout: element k goes to lane k mod 16; where rows are
// bf16 and weights bf16, fp8 or mxfp4, elements 2i and 2i+1 of each 32 go to lane i, odd ones
// first, which is what the hardware's bf16 dot product does. A tail is filled up with zeros.
//
// fp8: each block of 128 weights is summed in separate lanes, which one fma multiplies by the
// block's scale and adds. mxfp4: bf16 holds each weight with its scale exactly, and sums are those
// of bf16 weights.
//
// Below about 10 rows memory is the limit (each weight is read once), above it fma.

#pragma once

#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// The most rows that are multiplied at once; they should fit the second-level cache.
constexpr int kRowChunk = 64;
constexpr int64_t kRowChunkBytes = 384 << 10;
// Outputs that are computed before they are finished and stored together.
constexpr int kColumns = kLanes;
template <DType kX, DType kW>
struct Natural {
  static constexpr int kStep = kLanes;
  static constexpr int64_t kXBytes = Bytes(kX);
  static constexpr DType kWeight = kW;
  static constexpr bool kIsScaled = kW == DType::kFloat8E4M3;
  static constexpr float kLoadsOf = 256.0f;  // a weight of fp8 is loaded as this part of it
  using Operand = Reg;
  template <DType kType>
  static JANUS_INLINE Reg LoadPart(const char* p, int i) {
    p += i * kRegLanes * Bytes(kType);
    if constexpr (kType == DType::kFloat32) return RLoad(p);
    if constexpr (kType == DType::kBFloat16) return RLoadBf16(p);
    if constexpr (kType == DType::kFloat8E4M3) return RLoadF8Of256(p);
    return RLoadF16(p);
  }
  static JANUS_INLINE Reg LoadX(const char* p, int i) { return LoadPart<kX>(p, i); }
  static JANUS_INLINE Reg LoadW(const char* p, int i) { return LoadPart<kW>(p, i); }
  // Of mxfp4, with its block's scale.
  static JANUS_INLINE Reg LoadScaled(const char* p, int i, float scale) {
    return RLoadF4(p + i * kRegLanes / 2, scale);
  }
  static JANUS_INLINE Reg Madd(Reg acc, Reg x, Reg w) { return RFma(x, w, acc); }
};

// Rows of bf16, weights of bf16, fp8 or mxfp4.
template <DType kW>
struct Pairs {
  static constexpr int kStep = 2 * kLanes;
  static constexpr int64_t kXBytes = 2;
  static constexpr DType kWeight = kW;
  static constexpr bool kIsScaled = kW == DType::kFloat8E4M3;
#if JANUS_BF16
  static constexpr float kLoadsOf = 1.0f;
  using Operand = __m512bh;
  static JANUS_INLINE Operand LoadX(const char* p, int) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
  static JANUS_INLINE Operand LoadW(const char* p, int) {
    if constexpr (kIsScaled) return reinterpret_cast<__m512bh>(LoadF8AsBf16(p));
    return LoadX(p, 0);
  }
  static JANUS_INLINE Operand LoadScaled(const char* p, int, float scale) {
    return reinterpret_cast<__m512bh>(LoadF4AsBf16(p, scale));
  }
  static JANUS_INLINE Reg Madd(Reg acc, Operand x, Operand w) {
    return _mm512_dpbf16_ps(acc, x, w);
  }
#else
  static constexpr float kLoadsOf = 256.0f;
  struct Operand {
    Reg odd;
    Reg even;
  };
  static JANUS_INLINE Operand LoadX(const char* p, int i) {
    const RegI words = RCast(RLoad(p + i * kRegLanes * 4));
    return {RCast(IAnd(words, ISet(static_cast<int32_t>(0xffff0000u)))),
            RCast(IShiftLeft<16>(words))};
  }
  static JANUS_INLINE Operand LoadW(const char* p, int i) {
    if constexpr (kIsScaled) {
      Operand pairs;
      RLoadF8PairsOf256(p + i * kRegLanes * 2, pairs.even, pairs.odd);
      return pairs;
    }
    return LoadX(p, i);
  }
  static JANUS_INLINE Operand LoadScaled(const char* p, int i, float scale) {
    Operand pairs;
    RLoadF4Pairs(p + i * kRegLanes, scale, pairs.even, pairs.odd);
    return pairs;
  }
  static JANUS_INLINE Reg Madd(Reg acc, Operand x, Operand w) {
    return RFma(x.even, w.even, RFma(x.odd, w.odd, acc));
  }
#endif
};

template <class Kind>
constexpr bool kIsMx = Kind::kWeight == DType::kMxfp4;
// Bytes of so many weights.
template <class Kind>
constexpr JANUS_INLINE int64_t WBytes(int64_t elements) {
  return Bytes(Kind::kWeight, elements);
}

// Weights that are prefetched while others are used, so that the second-level cache holds them when
// they are needed.
struct Ahead {
  const char* at;
  int64_t step;  // bytes per step of k
};

// out[m][n] for kM rows and kN weight rows; w_stride in bytes, `out` has kColumns per row. Requests
// kAhead lines of `ahead` per step. `scales`: of the weight rows' blocks, where the kind has them.
template <class Kind, int kM, int kN, int kAhead>
__attribute__((noinline)) void DotTile(const char* const* x, const char* w, int64_t w_stride,
                                       int64_t k, const void* scales, Ahead ahead, float* out) {
  [[maybe_unused]] const float* block_scales = static_cast<const float*>(scales);
  V16 acc[kM][kN];
  const char* x_m[kM];
  const char* w_n[kN];
  JANUS_UNROLL for (int m = 0; m < kM; ++m) {
    x_m[m] = x[m];
    JANUS_UNROLL for (int n = 0; n < kN; ++n) acc[m][n] = Zero();
  }
  JANUS_UNROLL for (int n = 0; n < kN; ++n) w_n[n] = w + n * w_stride;

  // Weights of row n of a step from element `at` on, which lie at `w_at`.
  const auto load = [&](const char* w_at, int i, int n, int64_t at) __attribute__((always_inline))
                        ->typename Kind::Operand {
    if constexpr (kIsMx<Kind>) {
      const auto* const of_row = static_cast<const uint8_t*>(scales) + n * (k / kMxBlock);
      return Kind::LoadScaled(w_at, i, ScaleOf(of_row[at / kMxBlock]));
    } else {
      return Kind::LoadW(w_at, i);
    }
  };
  const auto step = [&](V16(&to)[kM][kN], const char* const* xs, const char* const* ws, int64_t xo,
                        int64_t wo, int64_t at) __attribute__((always_inline)) {
    JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
      typename Kind::Operand operand[kM];
      JANUS_UNROLL for (int m = 0; m < kM; ++m) operand[m] = Kind::LoadX(xs[m] + xo, i);
      JANUS_UNROLL for (int n = 0; n < kN; ++n) {
        const typename Kind::Operand weight = load(ws[n] + wo, i, n, at);
        JANUS_UNROLL for (int m = 0; m < kM; ++m) {
          to[m][n].r[i] = Kind::Madd(to[m][n].r[i], operand[m], weight);
        }
      }
    }
  };
  // Whole steps of k in from..to-1.
  const auto steps = [&](V16(&sums)[kM][kN], int64_t from, int64_t to)
      __attribute__((always_inline)) {
    for (int64_t at = from; at < to; at += Kind::kStep) {
      JANUS_UNROLL for (int i = 0; i < kAhead; ++i) _mm_prefetch(ahead.at + i * 64, _MM_HINT_T1);
      ahead.at += ahead.step;
      step(sums, x_m, w_n, at * Kind::kXBytes, WBytes<Kind>(at), at);
    }
  };
  [[maybe_unused]] const auto add_scaled = [&](const V16(&sums)[kM][kN])
      __attribute__((always_inline)) {
    const V16 scale = Set(Kind::kLoadsOf * *block_scales++);
    JANUS_UNROLL for (int m = 0; m < kM; ++m) {
      JANUS_UNROLL for (int n = 0; n < kN; ++n) acc[m][n] = Fma(sums[m][n], scale, acc[m][n]);
    }
  };

  const int64_t full = k / Kind::kStep * Kind::kStep;
  V16 block[kM][kN];
  if constexpr (Kind::kIsScaled) {
    int64_t from = 0;
    for (; from + kScaleBlock <= full; from += kScaleBlock) {
      JANUS_UNROLL for (int m = 0; m < kM; ++m) {
        JANUS_UNROLL for (int n = 0; n < kN; ++n) block[m][n] = Zero();
      }
      steps(block, from, from + kScaleBlock);
      add_scaled(block);
    }
    JANUS_UNROLL for (int m = 0; m < kM; ++m) {
      JANUS_UNROLL for (int n = 0; n < kN; ++n) block[m][n] = Zero();
    }
    steps(block, from, full);
  } else {
    steps(acc, 0, full);
  }
  // Rows of mxfp4 are whole steps.
  if (const int64_t rest = k - full; !kIsMx<Kind> && rest > 0) {
    alignas(64) char x_tail[kM][Kind::kStep * Kind::kXBytes] = {};
    alignas(64) char w_tail[kN][WBytes<Kind>(Kind::kStep)] = {};
    JANUS_UNROLL for (int m = 0; m < kM; ++m) {
      std::memcpy(x_tail[m], x_m[m] + full * Kind::kXBytes,
                  static_cast<size_t>(rest * Kind::kXBytes));
      x_m[m] = x_tail[m];
    }
    JANUS_UNROLL for (int n = 0; n < kN; ++n) {
      std::memcpy(w_tail[n], w_n[n] + WBytes<Kind>(full), static_cast<size_t>(WBytes<Kind>(rest)));
      w_n[n] = w_tail[n];
    }
    if constexpr (Kind::kIsScaled) {
      step(block, x_m, w_n, 0, 0, 0);
    } else {
      step(acc, x_m, w_n, 0, 0, 0);
    }
  }
  if constexpr (Kind::kIsScaled) {
    if (k % kScaleBlock != 0) add_scaled(block);
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

// A tile of rows <= kMaxM.
template <class Kind, int kMaxM, int kN, int kAhead>
JANUS_INLINE void DotSomeRows(const char* const* x, int rows, const char* w, int64_t w_stride,
                              int64_t k, const void* scales, Ahead ahead, float* out) {
  if constexpr (kMaxM > 1) {
    if (rows < kMaxM) {
      return DotSomeRows<Kind, kMaxM - 1, kN, kAhead>(x, rows, w, w_stride, k, scales, ahead, out);
    }
  }
  DotTile<Kind, kMaxM, kN, kAhead>(x, w, w_stride, k, scales, ahead, out);
}

// kN weight rows against all rows of a chunk, in tiles of nearly equal size. Meanwhile the next kN
// rows are requested, evenly over the tiles: weights are contiguous, so what follows is what comes
// next (at the very end it is other memory, and a prefetch does no harm).
template <class Kind, int kMaxM, int kN>
JANUS_INLINE void DotRows(const char* const* x, int rows, const char* w, int64_t w_stride,
                          int64_t k, const void* scales, float* out) {
  constexpr int kStepBytes = static_cast<int>(kN * WBytes<Kind>(Kind::kStep));
  constexpr int kLines = kStepBytes > 64 ? kStepBytes / 64 : 1;
  constexpr int kLinesShared = kLines > 1 ? kLines / 2 : 1;
  const char* next = w + kN * w_stride;
  if (rows <= kMaxM) {
    DotSomeRows<Kind, kMaxM, kN, kLines>(x, rows, w, w_stride, k, scales, {next, kStepBytes}, out);
    return;
  }
  const int tiles = (rows + kMaxM - 1) / kMaxM;
  const int64_t share = kN * w_stride / tiles;
  for (int tile = 0; tile < tiles; ++tile) {
    const int begin = rows * tile / tiles;
    const int end = rows * (tile + 1) / tiles;
    DotSomeRows<Kind, kMaxM, kN, kLinesShared>(x + begin, end - begin, w, w_stride, k, scales,
                                               {next + tile * share, kStepBytes / tiles},
                                               out + begin * kColumns);
  }
}

// out[m][n], m < rows <= kRowChunk, n < columns <= kColumns: row x[m] . weight row n. `scales`: the
// weight rows', of fp8 float, a row of them for all; of mxfp4 uint8_t, a row for each; null for
// kinds without.
template <class Kind>
__attribute__((noinline)) void DotBlock(const char* const* x, int rows, const char* w,
                                        int64_t w_stride, int columns, int64_t k,
                                        const void* scales, float* out) {
#if JANUS_WIDE
  // Loads of fp8 and mxfp4 cost more than a multiplication, so more rows share one.
  constexpr bool kExpands = Kind::kIsScaled || kIsMx<Kind>;
  constexpr int kM = kExpands ? 8 : 4;
  constexpr int kN = kExpands ? 2 : 4;
  constexpr int kFew = 2;
  constexpr int kFewN = 8;
#else
  constexpr int kM = 3;
  constexpr int kN = 2;
  constexpr int kFew = 1;
  constexpr int kFewN = 4;
#endif
  const auto scales_of = [&](int row) {
    return kIsMx<Kind> ? static_cast<const uint8_t*>(scales) + row * (k / kMxBlock) : scales;
  };
  int n = 0;
  if (rows <= kFew) {
    for (; n + kFewN <= columns; n += kFewN) {
      DotRows<Kind, kFew, kFewN>(x, rows, w + n * w_stride, w_stride, k, scales_of(n), out + n);
    }
  } else {
    for (; n + kN <= columns; n += kN) {
      DotRows<Kind, kM, kN>(x, rows, w + n * w_stride, w_stride, k, scales_of(n), out + n);
    }
  }
  for (; n < columns; ++n)
    DotRows<Kind, kM, 1>(x, rows, w + n * w_stride, w_stride, k, scales_of(n), out + n);
}

using DotBlockFn = void (*)(const char* const* x, int rows, const char* w, int64_t w_stride,
                            int columns, int64_t k, const void* scales, float* out);

// The block function of a pair of formats; x is Float32 or BFloat16.
JANUS_INLINE DotBlockFn DotBlockOf(DType x, DType w) {
  if (x == DType::kFloat32) {
    if (w == DType::kFloat32) return DotBlock<Natural<DType::kFloat32, DType::kFloat32>>;
    if (w == DType::kBFloat16) return DotBlock<Natural<DType::kFloat32, DType::kBFloat16>>;
    if (w == DType::kFloat8E4M3) return DotBlock<Natural<DType::kFloat32, DType::kFloat8E4M3>>;
    if (w == DType::kMxfp4) return DotBlock<Natural<DType::kFloat32, DType::kMxfp4>>;
    return DotBlock<Natural<DType::kFloat32, DType::kFloat16>>;
  }
  if (w == DType::kFloat32) return DotBlock<Natural<DType::kBFloat16, DType::kFloat32>>;
  if (w == DType::kBFloat16) return DotBlock<Pairs<DType::kBFloat16>>;
  if (w == DType::kFloat8E4M3) return DotBlock<Pairs<DType::kFloat8E4M3>>;
  if (w == DType::kMxfp4) return DotBlock<Pairs<DType::kMxfp4>>;
  return DotBlock<Natural<DType::kBFloat16, DType::kFloat16>>;
}

// Rows per chunk for rows of so many bytes.
JANUS_INLINE int64_t RowsPerChunk(int64_t row_bytes) {
  const int64_t fitting = kRowChunkBytes / row_bytes / 4 * 4;
  return fitting < 4 ? 4 : (fitting > kRowChunk ? kRowChunk : fitting);
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
