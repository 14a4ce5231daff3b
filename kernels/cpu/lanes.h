// Sixteen fp32 lanes, whatever the instruction set: one 512-bit register or two of 256 bits.
// Kernels are written once over them and are compiled in one translation unit per instruction set,
// each of which sets JANUS_ISA (a namespace) and JANUS_WIDE (1 for AVX-512) and includes this file.
//
// Every lane does the same operations in the same order in both forms, and the horizontal trees are
// the same, so fp32 results are bitwise equal among instruction sets. Nothing here has external
// linkage: a template or inline function that the linker could merge with another unit's would run
// one unit's instructions on the other's CPU.

#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

#define JANUS_INLINE inline __attribute__((always_inline))
#define JANUS_UNROLL _Pragma("GCC unroll 16")

namespace janus::kernels::JANUS_ISA {
namespace {

#if JANUS_WIDE
using Reg = __m512;
using RegI = __m512i;
#else
using Reg = __m256;
using RegI = __m256i;
#endif
constexpr int kLanes = 16;
constexpr int kRegs = JANUS_WIDE ? 1 : 2;
constexpr int kRegLanes = kLanes / kRegs;

// Registers ---------------------------------------------------------------------------------------

#if JANUS_WIDE
JANUS_INLINE Reg RZero() {
  return _mm512_setzero_ps();
}
JANUS_INLINE Reg RSet(float v) {
  return _mm512_set1_ps(v);
}
JANUS_INLINE Reg RLoad(const void* p) {
  return _mm512_loadu_ps(p);
}
JANUS_INLINE Reg RLoadBf16(const void* p) {
  const __m256i half = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
JANUS_INLINE Reg RLoadF16(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
// fp8 by way of fp16, which has a bias of its exponent that is 8 larger: results are a 256th of
// each. `bits`: in the high byte of each 16 bits; the low byte is zero.
JANUS_INLINE Reg RFromF8Of256(__m256i bits) {
  const __m256i sign = _mm256_and_si256(bits, _mm256_set1_epi16(static_cast<int16_t>(0x8000)));
  const __m256i rest = _mm256_and_si256(bits, _mm256_set1_epi16(0x7f00));
  return _mm512_cvtph_ps(_mm256_or_si256(sign, _mm256_srli_epi16(rest, 1)));
}
JANUS_INLINE Reg RLoadF8Of256(const void* p) {
  const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return RFromF8Of256(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bits), 8));
}
// Two of them to a lane: elements 0, 2, 4, ... and 1, 3, 5, ...
JANUS_INLINE void RLoadF8PairsOf256(const void* p, Reg& even, Reg& odd) {
  const __m256i pairs = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  even = RFromF8Of256(_mm256_slli_epi16(pairs, 8));
  odd = RFromF8Of256(pairs);
}
#if JANUS_BF16
// 32 numbers of fp8 as bf16, exactly. The exponent's bias is 120 larger; subnormals of fp8 come
// from a table.
JANUS_INLINE __m512i LoadF8AsBf16(const void* p) {
  const __m512i bits = _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi16(0x7f));
  const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(bits, _mm512_set1_epi16(0x80)), 8);
  const __m512i normal =
      _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(120 << 7));
  // m * 2^-9 for m of 0 to 7, by the low five bits of an index.
  const __m512i subnormals = _mm512_castsi128_si512(
      _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
  const __mmask32 is_subnormal = _mm512_testn_epi16_mask(bits, _mm512_set1_epi16(0x78));
  const __m512i value = _mm512_mask_permutexvar_epi16(normal, is_subnormal, magnitude, subnormals);
  return _mm512_or_si512(value, sign);
}
#endif
// E2M1 from the low four bits of each lane, times `scale`; higher bits are ignored.
JANUS_INLINE Reg RFromF4(__m512i bits, float scale) {
  const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                       -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  return _mm512_permutexvar_ps(bits, _mm512_mul_ps(values, _mm512_set1_ps(scale)));
}
// As many as a register has lanes.
JANUS_INLINE Reg RLoadF4(const void* p, float scale) {
  const __m512i pairs = _mm512_cvtepu8_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  return RFromF4(_mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28)), scale);
}
// Twice as many: elements 0, 2, 4, ... and 1, 3, 5, ...
JANUS_INLINE void RLoadF4Pairs(const void* p, float scale, Reg& even, Reg& odd) {
  const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  even = RFromF4(pairs, scale);
  odd = RFromF4(_mm512_srli_epi32(pairs, 4), scale);
}
#if JANUS_BF16
// 32 of them as bf16.
JANUS_INLINE __m512i LoadF4AsBf16(const void* p, float scale) {
  const __m512 values =
      RFromF4(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), scale);
  const __m512i table = _mm512_broadcast_i64x4(
      _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(values), 16)));
  const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  // An index is the lower five bits of 16, of which the table leaves the fifth out.
  const __m512i indices = _mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12));
  return _mm512_permutexvar_epi16(indices, table);
}
#endif
JANUS_INLINE void RStore(void* p, Reg a) {
  _mm512_storeu_ps(p, a);
}
JANUS_INLINE Reg RAdd(Reg a, Reg b) {
  return _mm512_add_ps(a, b);
}
JANUS_INLINE Reg RSub(Reg a, Reg b) {
  return _mm512_sub_ps(a, b);
}
JANUS_INLINE Reg RMul(Reg a, Reg b) {
  return _mm512_mul_ps(a, b);
}
JANUS_INLINE Reg RDiv(Reg a, Reg b) {
  return _mm512_div_ps(a, b);
}
JANUS_INLINE Reg RFma(Reg a, Reg b, Reg c) {
  return _mm512_fmadd_ps(a, b, c);
}
// The second operand where one of them is NaN, as both forms do.
JANUS_INLINE Reg RMax(Reg a, Reg b) {
  return _mm512_max_ps(a, b);
}
JANUS_INLINE Reg RMin(Reg a, Reg b) {
  return _mm512_min_ps(a, b);
}
JANUS_INLINE RegI RToInt(Reg a) {
  return _mm512_cvtps_epi32(a);
}
JANUS_INLINE Reg RToFloat(RegI a) {
  return _mm512_cvtepi32_ps(a);
}
JANUS_INLINE Reg RCast(RegI a) {
  return _mm512_castsi512_ps(a);
}
JANUS_INLINE RegI RCast(Reg a) {
  return _mm512_castps_si512(a);
}
JANUS_INLINE RegI ISet(int32_t v) {
  return _mm512_set1_epi32(v);
}
JANUS_INLINE RegI IAdd(RegI a, RegI b) {
  return _mm512_add_epi32(a, b);
}
JANUS_INLINE RegI ISub(RegI a, RegI b) {
  return _mm512_sub_epi32(a, b);
}
JANUS_INLINE RegI IMax(RegI a, RegI b) {
  return _mm512_max_epi32(a, b);
}
JANUS_INLINE RegI IMin(RegI a, RegI b) {
  return _mm512_min_epi32(a, b);
}
JANUS_INLINE RegI IAnd(RegI a, RegI b) {
  return _mm512_and_si512(a, b);
}
JANUS_INLINE RegI IXor(RegI a, RegI b) {
  return _mm512_xor_si512(a, b);
}
template <int kBits>
JANUS_INLINE RegI IShiftLeft(RegI a) {
  return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
JANUS_INLINE RegI IShiftRight(RegI a) {
  return _mm512_srli_epi32(a, kBits);
}
template <int kBits>
JANUS_INLINE RegI IShiftRightSigned(RegI a) {
  return _mm512_srai_epi32(a, kBits);
}
// b where a bit of `mask` (lane = first + i) is set, else a.
JANUS_INLINE Reg RBlend(uint32_t mask, int first, Reg a, Reg b) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>(mask >> first), a, b);
}
JANUS_INLINE uint32_t RIsNan(Reg a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
// b where `which` is not zero, else a.
JANUS_INLINE RegI ISelect(RegI which, RegI a, RegI b) {
  return _mm512_mask_blend_epi32(_mm512_test_epi32_mask(which, which), a, b);
}
JANUS_INLINE void RStoreBf16(void* p, Reg a) {
  const RegI bits = RCast(a);
  const RegI odd = IAnd(IShiftRight<16>(bits), ISet(1));
  const RegI rounded = IShiftRight<16>(IAdd(bits, IAdd(odd, ISet(0x7fff))));
  const RegI quiet = _mm512_or_si512(IShiftRight<16>(bits), ISet(0x40));
  const RegI kept = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(kept));
}
JANUS_INLINE void RStoreLowBytes(void* p, RegI a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
}
#else
JANUS_INLINE Reg RZero() {
  return _mm256_setzero_ps();
}
JANUS_INLINE Reg RSet(float v) {
  return _mm256_set1_ps(v);
}
JANUS_INLINE Reg RLoad(const void* p) {
  return _mm256_loadu_ps(static_cast<const float*>(p));
}
JANUS_INLINE Reg RLoadBf16(const void* p) {
  const __m128i half = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
JANUS_INLINE Reg RLoadF16(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
JANUS_INLINE Reg RFromF8Of256(__m128i bits) {
  const __m128i sign = _mm_and_si128(bits, _mm_set1_epi16(static_cast<int16_t>(0x8000)));
  const __m128i rest = _mm_and_si128(bits, _mm_set1_epi16(0x7f00));
  return _mm256_cvtph_ps(_mm_or_si128(sign, _mm_srli_epi16(rest, 1)));
}
JANUS_INLINE Reg RLoadF8Of256(const void* p) {
  const __m128i bits = _mm_loadl_epi64(static_cast<const __m128i*>(p));
  return RFromF8Of256(_mm_slli_epi16(_mm_cvtepu8_epi16(bits), 8));
}
JANUS_INLINE void RLoadF8PairsOf256(const void* p, Reg& even, Reg& odd) {
  const __m128i pairs = _mm_loadu_si128(static_cast<const __m128i*>(p));
  even = RFromF8Of256(_mm_slli_epi16(pairs, 8));
  odd = RFromF8Of256(pairs);
}
// Magnitudes by the lower three bits, the sign by bit 3.
JANUS_INLINE Reg RFromF4(__m256i bits, float scale) {
  const __m256 values = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  const __m256 scaled = _mm256_mul_ps(values, _mm256_set1_ps(scale));
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(bits, 3), 31);
  return _mm256_or_ps(_mm256_permutevar8x32_ps(scaled, bits), _mm256_castsi256_ps(sign));
}
JANUS_INLINE Reg RLoadF4(const void* p, float scale) {
  int32_t four = 0;
  std::memcpy(&four, p, sizeof four);
  const __m256i pairs = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
  return RFromF4(_mm256_or_si256(pairs, _mm256_slli_epi64(pairs, 28)), scale);
}
JANUS_INLINE void RLoadF4Pairs(const void* p, float scale, Reg& even, Reg& odd) {
  const __m256i pairs = _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  even = RFromF4(pairs, scale);
  odd = RFromF4(_mm256_srli_epi32(pairs, 4), scale);
}
JANUS_INLINE void RStore(void* p, Reg a) {
  _mm256_storeu_ps(static_cast<float*>(p), a);
}
JANUS_INLINE Reg RAdd(Reg a, Reg b) {
  return _mm256_add_ps(a, b);
}
JANUS_INLINE Reg RSub(Reg a, Reg b) {
  return _mm256_sub_ps(a, b);
}
JANUS_INLINE Reg RMul(Reg a, Reg b) {
  return _mm256_mul_ps(a, b);
}
JANUS_INLINE Reg RDiv(Reg a, Reg b) {
  return _mm256_div_ps(a, b);
}
JANUS_INLINE Reg RFma(Reg a, Reg b, Reg c) {
  return _mm256_fmadd_ps(a, b, c);
}
JANUS_INLINE Reg RMax(Reg a, Reg b) {
  return _mm256_max_ps(a, b);
}
JANUS_INLINE Reg RMin(Reg a, Reg b) {
  return _mm256_min_ps(a, b);
}
JANUS_INLINE RegI RToInt(Reg a) {
  return _mm256_cvtps_epi32(a);
}
JANUS_INLINE Reg RToFloat(RegI a) {
  return _mm256_cvtepi32_ps(a);
}
JANUS_INLINE Reg RCast(RegI a) {
  return _mm256_castsi256_ps(a);
}
JANUS_INLINE RegI RCast(Reg a) {
  return _mm256_castps_si256(a);
}
JANUS_INLINE RegI ISet(int32_t v) {
  return _mm256_set1_epi32(v);
}
JANUS_INLINE RegI IAdd(RegI a, RegI b) {
  return _mm256_add_epi32(a, b);
}
JANUS_INLINE RegI ISub(RegI a, RegI b) {
  return _mm256_sub_epi32(a, b);
}
JANUS_INLINE RegI IMax(RegI a, RegI b) {
  return _mm256_max_epi32(a, b);
}
JANUS_INLINE RegI IMin(RegI a, RegI b) {
  return _mm256_min_epi32(a, b);
}
JANUS_INLINE RegI IAnd(RegI a, RegI b) {
  return _mm256_and_si256(a, b);
}
JANUS_INLINE RegI IXor(RegI a, RegI b) {
  return _mm256_xor_si256(a, b);
}
template <int kBits>
JANUS_INLINE RegI IShiftLeft(RegI a) {
  return _mm256_slli_epi32(a, kBits);
}
template <int kBits>
JANUS_INLINE RegI IShiftRight(RegI a) {
  return _mm256_srli_epi32(a, kBits);
}
template <int kBits>
JANUS_INLINE RegI IShiftRightSigned(RegI a) {
  return _mm256_srai_epi32(a, kBits);
}
JANUS_INLINE Reg RBlend(uint32_t mask, int first, Reg a, Reg b) {
  const RegI lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const RegI set = IAnd(ISet(static_cast<int32_t>(mask >> first)), lane);
  return _mm256_blendv_ps(a, b, RCast(_mm256_cmpeq_epi32(set, lane)));
}
JANUS_INLINE uint32_t RIsNan(Reg a) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}
JANUS_INLINE RegI ISelect(RegI which, RegI a, RegI b) {
  return _mm256_blendv_epi8(b, a, _mm256_cmpeq_epi32(which, _mm256_setzero_si256()));
}
JANUS_INLINE void RStoreBf16(void* p, Reg a) {
  const RegI bits = RCast(a);
  const RegI odd = IAnd(IShiftRight<16>(bits), ISet(1));
  const RegI rounded = IShiftRight<16>(IAdd(bits, IAdd(odd, ISet(0x7fff))));
  const RegI quiet = _mm256_or_si256(IShiftRight<16>(bits), ISet(0x40));
  const RegI nan = RCast(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  const RegI kept = _mm256_blendv_epi8(rounded, quiet, nan);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packus_epi32(_mm256_castsi256_si128(kept),
                                                              _mm256_extracti128_si256(kept, 1)));
}
// Of numbers below 256.
JANUS_INLINE void RStoreLowBytes(void* p, RegI a) {
  const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(pairs, pairs));
}
#endif

// The codes, without sign, of magnitudes, as ToFloat8E4M3 has them; more than 448 is 448. Adding
// and taking away 2^20 times the power of two below rounds to three bits behind it, ties to even;
// below 2^-6 to 2^-9.
JANUS_INLINE RegI RToFloat8(Reg magnitude) {
  const Reg m = RMin(magnitude, RSet(448.0f));
  const Reg power = RMax(RCast(IAnd(RCast(m), ISet(0x7f800000))), RSet(0x1p-6f));
  const Reg large = RMul(power, RSet(0x1p20f));
  const Reg rounded = RSub(RAdd(m, large), large);
  const RegI bits = RCast(rounded);
  const RegI normal = IShiftRight<20>(ISub(bits, ISet(0x3c000000)));
  const RegI is_subnormal = IShiftRightSigned<31>(ISub(bits, ISet(0x3c800000)));
  return ISelect(is_subnormal, normal, RToInt(RMul(rounded, RSet(512.0f))));
}

// Not of NaN.
JANUS_INLINE void RStoreF8(void* p, Reg a) {
  const RegI sign = IAnd(IShiftRight<24>(RCast(a)), ISet(0x80));
  RStoreLowBytes(p, IAdd(RToFloat8(RCast(IAnd(RCast(a), ISet(0x7fffffff)))), sign));
}

// Sixteen lanes -----------------------------------------------------------------------------------

struct V16 {
  Reg r[kRegs];
};

// Applies a register function to each part.
#define JANUS_EACH(expression)                                             \
  V16 result;                                                              \
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) result.r[i] = (expression); \
  return result

JANUS_INLINE V16 Zero() {
  JANUS_EACH(RZero());
}
JANUS_INLINE V16 Set(float v) {
  JANUS_EACH(RSet(v));
}
JANUS_INLINE V16 operator+(V16 a, V16 b) {
  JANUS_EACH(RAdd(a.r[i], b.r[i]));
}
JANUS_INLINE V16 operator-(V16 a, V16 b) {
  JANUS_EACH(RSub(a.r[i], b.r[i]));
}
JANUS_INLINE V16 operator*(V16 a, V16 b) {
  JANUS_EACH(RMul(a.r[i], b.r[i]));
}
JANUS_INLINE V16 operator/(V16 a, V16 b) {
  JANUS_EACH(RDiv(a.r[i], b.r[i]));
}
// a*b + c, rounded once.
JANUS_INLINE V16 Fma(V16 a, V16 b, V16 c) {
  JANUS_EACH(RFma(a.r[i], b.r[i], c.r[i]));
}
JANUS_INLINE V16 Max(V16 a, V16 b) {
  JANUS_EACH(RMax(a.r[i], b.r[i]));
}
JANUS_INLINE V16 Min(V16 a, V16 b) {
  JANUS_EACH(RMin(a.r[i], b.r[i]));
}
// b where the lane's bit is set, else a.
JANUS_INLINE V16 Blend(uint32_t mask, V16 a, V16 b) {
  JANUS_EACH(RBlend(mask, i * kRegLanes, a.r[i], b.r[i]));
}
JANUS_INLINE V16 Load(const float* p) {
  JANUS_EACH(RLoad(p + i * kRegLanes));
}
JANUS_INLINE void Store(float* p, V16 a) {
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) RStore(p + i * kRegLanes, a.r[i]);
}
JANUS_INLINE uint32_t IsNan(V16 a) {
  uint32_t mask = 0;
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) mask |= RIsNan(a.r[i]) << (i * kRegLanes);
  return mask;
}

constexpr JANUS_INLINE int64_t Bytes(DType type, int64_t elements = 1) {
  const int64_t bits = type == DType::kFloat32      ? 32
                       : type == DType::kFloat8E4M3 ? 8
                       : type == DType::kMxfp4      ? 4
                                                    : 16;
  return elements * bits / 8;
}
// As janus::FromE8M0, which the linker could take from a unit of another instruction set. Not for
// NaN.
constexpr JANUS_INLINE float ScaleOf(uint8_t bits) {
  return bits == 0 ? 0x1p-127f : __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 23);
}

// For fp8, LoadAs gives a 256th of each element, which takes fewer steps. Scales are multiplied by
// this number instead.
template <DType kType>
constexpr float kLoadsOf = kType == DType::kFloat8E4M3 ? 256.0f : 1.0f;
// Sixteen elements of a format at any address.
template <DType kType>
JANUS_INLINE V16 LoadAs(const void* p) {
  const char* bytes = static_cast<const char*>(p);
  if constexpr (kType == DType::kFloat32) {
    JANUS_EACH(RLoad(bytes + i * kRegLanes * 4));
  } else if constexpr (kType == DType::kBFloat16) {
    JANUS_EACH(RLoadBf16(bytes + i * kRegLanes * 2));
  } else if constexpr (kType == DType::kFloat8E4M3) {
    JANUS_EACH(RLoadF8Of256(bytes + i * kRegLanes));
  } else {
    JANUS_EACH(RLoadF16(bytes + i * kRegLanes * 2));
  }
}
// Not of fp8.
JANUS_INLINE V16 LoadAs(DType type, const void* p) {
  if (type == DType::kFloat32) return LoadAs<DType::kFloat32>(p);
  if (type == DType::kBFloat16) return LoadAs<DType::kBFloat16>(p);
  return LoadAs<DType::kFloat16>(p);
}
// Rounds to fp32 (as it is) or bf16 and stores sixteen elements at any address.
JANUS_INLINE void StoreAs(DType type, void* p, V16 a) {
  char* bytes = static_cast<char*>(p);
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
    if (type == DType::kFloat32) {
      RStore(bytes + i * kRegLanes * 4, a.r[i]);
    } else {
      RStoreBf16(bytes + i * kRegLanes * 2, a.r[i]);
    }
  }
}
// The first `count` <= 16 numbers, none of them NaN, rounded to fp8; beyond 448 they are 448.
JANUS_INLINE void StoreF8(void* p, V16 a, int64_t count) {
  alignas(16) char buffer[kLanes];
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) RStoreF8(buffer + i * kRegLanes, a.r[i]);
  std::memcpy(p, buffer, static_cast<size_t>(count));
}
// The first `count` of sixteen; the other lanes are zero, their memory is not touched.
JANUS_INLINE V16 LoadPartial(DType type, const void* p, int64_t count) {
  alignas(64) char buffer[64] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count * Bytes(type)));
  return LoadAs(type, buffer);
}
template <DType kType>
JANUS_INLINE V16 LoadPartial(const void* p, int64_t count) {
  alignas(64) char buffer[64] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count * Bytes(kType)));
  return LoadAs<kType>(buffer);
}
JANUS_INLINE void StorePartial(DType type, void* p, V16 a, int64_t count) {
  alignas(64) char buffer[64];
  StoreAs(type, buffer, a);
  std::memcpy(p, buffer, static_cast<size_t>(count * Bytes(type)));
}
JANUS_INLINE V16 LoadUpTo(DType type, const void* p, int64_t count) {
  return count >= kLanes ? LoadAs(type, p) : LoadPartial(type, p, count);
}
template <DType kType>
JANUS_INLINE V16 LoadUpTo(const void* p, int64_t count) {
  return count >= kLanes ? LoadAs<kType>(p) : LoadPartial<kType>(p, count);
}
JANUS_INLINE void StoreUpTo(DType type, void* p, V16 a, int64_t count) {
  if (count >= kLanes) {
    StoreAs(type, p, a);
  } else {
    StorePartial(type, p, a, count);
  }
}

// Horizontal: lane i with i+8, then i+4, i+2, i+1 -----------------------------------------------

JANUS_INLINE __m128 AddToFour(V16 a) {
#if JANUS_WIDE
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(a.r[0]), _mm512_extractf32x8_ps(a.r[0], 1));
#else
  const __m256 eight = _mm256_add_ps(a.r[0], a.r[1]);
#endif
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
JANUS_INLINE float AddLanes(V16 a) {
  const __m128 four = AddToFour(a);
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// The same tree for four vectors at once.
JANUS_INLINE __m128 AddLanesOfFour(V16 a, V16 b, V16 c, V16 d) {
  const __m128 a4 = AddToFour(a);
  const __m128 b4 = AddToFour(b);
  const __m128 c4 = AddToFour(c);
  const __m128 d4 = AddToFour(d);
  const __m128 ab = _mm_add_ps(_mm_movelh_ps(a4, b4), _mm_movehl_ps(b4, a4));
  const __m128 cd = _mm_add_ps(_mm_movelh_ps(c4, d4), _mm_movehl_ps(d4, c4));
  return _mm_add_ps(_mm_shuffle_ps(ab, cd, _MM_SHUFFLE(2, 0, 2, 0)),
                    _mm_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 1, 3, 1)));
}
JANUS_INLINE float MaxLanes(V16 a) {
#if JANUS_WIDE
  const __m256 eight =
      _mm256_max_ps(_mm512_castps512_ps256(a.r[0]), _mm512_extractf32x8_ps(a.r[0], 1));
#else
  const __m256 eight = _mm256_max_ps(a.r[0], a.r[1]);
#endif
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Functions -----------------------------------------------------------------------------------

// e^x within 1.1 ulp (tested); 0 below -87.3 (the result would be subnormal),
// infinity above 88.73, NaN of NaN. x = n ln2 + r, |r| <= ln2/2; e^r = 1 + r + r^2 P(r), P of
// degree 4 by Remez exchange (error 1e-8); 2^n in two factors, so that n = 128 and n < -126 need no
// case.
JANUS_INLINE V16 Exp(V16 x) {
  V16 result;
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
    const Reg bounded = RMin(RSet(89.0f), RMax(RSet(-104.0f), x.r[i]));
    const RegI n = RToInt(RMul(bounded, RSet(0x1.715476p+0f)));
    const Reg nf = RToFloat(n);
    Reg r = RFma(nf, RSet(-0x1.62e430p-1f), bounded);
    r = RFma(nf, RSet(0x1.05c610p-29f), r);
    Reg p = RSet(0x1.6d75eep-10f);
    p = RFma(p, r, RSet(0x1.120be6p-7f));
    p = RFma(p, r, RSet(0x1.5554b8p-5f));
    p = RFma(p, r, RSet(0x1.5554dcp-3f));
    p = RFma(p, r, RSet(0.5f));
    p = RAdd(RFma(RMul(p, r), r, r), RSet(1.0f));
    const RegI half = IShiftRightSigned<1>(n);
    const RegI bias = ISet(127);
    const Reg first = RCast(IShiftLeft<23>(IAdd(half, bias)));
    const Reg second = RCast(IShiftLeft<23>(IAdd(ISub(n, half), bias)));
    result.r[i] = RMul(RMul(p, first), second);
  }
  return result;
}

JANUS_INLINE V16 Sigmoid(V16 x) {
  return Set(1.0f) / (Set(1.0f) + Exp(Zero() - x));
}

// cos and sin of 0 <= x < 2^22 within 2 ulp of 1 (absolute 1.2e-7). x = n pi/2 + r by three parts
// of pi/2 (Cody & Waite 1980; the products are exact inside the fma), polynomials by Remez
// exchange.
JANUS_INLINE void CosSin(V16 x, V16* cos, V16* sin) {
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
    const RegI near = RToInt(RMul(x.r[i], RSet(0x1.45f306p-1f)));
    const Reg nearf = RToFloat(near);
    Reg r = RFma(nearf, RSet(-0x1.921fb6p+0f), x.r[i]);
    r = RFma(nearf, RSet(0x1.777a5cp-25f), r);
    r = RFma(nearf, RSet(0x1.ee59dap-50f), r);
    // x * 2/pi was rounded: for a large x the quadrant may be a neighbour's.
    const RegI rest = RToInt(RMul(r, RSet(0x1.45f306p-1f)));
    r = RFma(RToFloat(rest), RSet(-0x1.921fb6p+0f), r);
    r = RFma(RToFloat(rest), RSet(0x1.777a5cp-25f), r);
    const RegI n = IAdd(near, rest);
    const Reg z = RMul(r, r);
    Reg s = RFma(RSet(-0x1.9ac4eap-13f), z, RSet(0x1.110c20p-7f));
    s = RFma(s, z, RSet(-0x1.555552p-3f));
    s = RFma(RMul(s, z), r, r);
    Reg c = RFma(RSet(0x1.9bd4b2p-16f), z, RSet(-0x1.6c12ccp-10f));
    c = RFma(c, z, RSet(0x1.555554p-5f));
    c = RFma(RMul(c, z), z, RFma(z, RSet(-0.5f), RSet(1.0f)));
    // Quadrant n mod 4: odd ones swap; sine is negative in 2 and 3, cosine in 1 and 2.
    const RegI odd = IAnd(n, ISet(1));
    const RegI sin_sign = IShiftLeft<30>(IAnd(n, ISet(2)));
    const RegI cos_sign = IShiftLeft<30>(IAnd(IAdd(n, ISet(1)), ISet(2)));
    sin->r[i] = RCast(IXor(ISelect(odd, RCast(s), RCast(c)), sin_sign));
    cos->r[i] = RCast(IXor(ISelect(odd, RCast(c), RCast(s)), cos_sign));
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
