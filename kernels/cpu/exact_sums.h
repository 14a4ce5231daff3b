// The sum rule FixedPoint: terms into integers and their sums, and sums into rows. Integers have no
// rounding, so the bits are the reference's. Bound by memory.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// Sixteen integers.
struct I16 {
  RegI r[kRegs];
};

// As janus::NotFinite.
constexpr int32_t NotFiniteOf(int bits) {
  return bits == 24 ? -(1 << 23) : INT32_MIN;
}
constexpr JANUS_INLINE float PowerOf(int exponent) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 127) << 23);
}

// a where it is `none`, else b.
JANUS_INLINE RegI KeepNone(RegI a, RegI none, RegI b) {
  return ISelect(IXor(a, none), none, b);
}

// As janus::AddFixed.
JANUS_INLINE RegI IAddFixed(RegI a, RegI b, RegI none) {
  return KeepNone(a, none, KeepNone(b, none, IAdd(a, b)));
}

// Elements of a sum; the first `count` of sixteen. The others are zero.
template <int kBits>
JANUS_INLINE I16 LoadSum(const char* at, int64_t count) {
  I16 result;
  if constexpr (kBits == 32) {
    const V16 bits = LoadUpTo<DType::kFloat32>(at, count);
    JANUS_UNROLL for (int i = 0; i < kRegs; ++i) result.r[i] = RCast(bits.r[i]);
  } else {
    // Three words hold four elements. Each goes to the upper bytes of a word, then down with sign.
    alignas(64) uint32_t words[kLanes];
    uint32_t packed[kLanes / 4 * 3] = {};
    std::memcpy(packed, at, static_cast<size_t>(3 * Smaller(kLanes, count)));
    for (int q = 0; q < kLanes / 4; ++q) {
      const uint32_t a = packed[3 * q], b = packed[3 * q + 1], c = packed[3 * q + 2];
      words[4 * q] = a << 8;
      words[4 * q + 1] = (a >> 24 | b << 8) << 8;
      words[4 * q + 2] = (b >> 16 | c << 16) << 8;
      words[4 * q + 3] = c & 0xffffff00u;
    }
    JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
      result.r[i] = IShiftRightSigned<8>(RCast(RLoad(words + i * kRegLanes)));
    }
  }
  return result;
}

template <int kBits>
JANUS_INLINE void StoreSum(char* at, const I16& sum, int64_t count) {
  V16 bits;
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) bits.r[i] = RCast(sum.r[i]);
  if constexpr (kBits == 32) {
    StoreUpTo(DType::kFloat32, at, bits, count);
  } else {
    alignas(64) uint32_t words[kLanes];
    uint32_t packed[kLanes / 4 * 3];
    JANUS_UNROLL for (int i = 0; i < kRegs; ++i) RStore(words + i * kRegLanes, bits.r[i]);
    for (int q = 0; q < kLanes / 4; ++q) {
      const uint32_t a = words[4 * q] & 0xffffffu, b = words[4 * q + 1] & 0xffffffu;
      const uint32_t c = words[4 * q + 2] & 0xffffffu, d = words[4 * q + 3];
      packed[3 * q] = a | b << 24;
      packed[3 * q + 1] = b >> 8 | c << 16;
      packed[3 * q + 2] = c >> 16 | d << 8;
    }
    std::memcpy(at, packed, static_cast<size_t>(3 * Smaller(kLanes, count)));
  }
}

// As janus::ToFixed. Lanes that were clamped are counted in `clamped`.
JANUS_INLINE I16 FixedOf(V16 value, V16 per_unit, RegI limit, RegI none, I16& clamped) {
  const uint32_t not_finite = IsNan(value - value);
  const V16 finite = Blend(not_finite, value, Zero());
  const V16 scaled = Min(Max(finite * per_unit, Set(-0x1p27f)), Set(0x1p27f));
  I16 result;
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
    const RegI rounded = RToInt(scaled.r[i]);  // to nearest, ties to even
    const RegI kept = IMax(IMin(rounded, limit), ISub(ISet(0), limit));
    clamped.r[i] = IAdd(clamped.r[i], ISelect(IXor(rounded, kept), ISet(0), ISet(1)));
    result.r[i] = RCast(RBlend(not_finite, i * kRegLanes, RCast(kept), RCast(none)));
  }
  return result;
}

// Columns dealt at a time, so that one row is enough work for a team.
constexpr int64_t kSumColumns = 512;

template <int kBits>
void AddTermsRows(const AddTermsArgs& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kSumColumns);
  const RegI limit = ISet(a.limit);
  const RegI none = ISet(NotFiniteOf(kBits));
  const V16 per_unit = Set(PowerOf(-a.exponent));
  I16 clamped;
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) clamped.r[i] = ISet(0);
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t begin = unit % blocks * kSumColumns;
    const int64_t end = Smaller(a.hidden, begin + kSumColumns);
    const int64_t first = t == 0 ? 0 : a.ends[t - 1];
    for (int64_t h = begin; h < end; h += kLanes) {
      const int64_t count = end - h;
      I16 sum;
      JANUS_UNROLL for (int i = 0; i < kRegs; ++i) sum.r[i] = ISet(0);
      for (int64_t term = first; term < a.ends[t]; ++term) {
        const I16 more = FixedOf(LoadUpTo<DType::kFloat32>(a.terms + term * a.hidden + h, count),
                                 per_unit, limit, none, clamped);
        JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
          sum.r[i] = IAddFixed(sum.r[i], more.r[i], none);
        }
      }
      StoreSum<kBits>(static_cast<char*>(a.sums) + (t * a.hidden + h) * (kBits / 8), sum, count);
    }
  }
  if (a.clamped == nullptr) return;
  alignas(64) uint32_t counts[kLanes];
  JANUS_UNROLL for (int i = 0; i < kRegs; ++i) RStore(counts + i * kRegLanes, RCast(clamped.r[i]));
  uint32_t all = 0;
  for (const uint32_t count : counts) all += count;
  if (all != 0) __atomic_fetch_add(a.clamped, all, __ATOMIC_RELAXED);
}

void AddTermsPart(const AddTermsArgs& a, int part, int parts) {
  a.bits == 24 ? AddTermsRows<24>(a, part, parts) : AddTermsRows<32>(a, part, parts);
}

template <int kBits>
void CombineSumsRows(const CombineSumsArgs& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kSumColumns);
  const RegI none = ISet(NotFiniteOf(kBits));
  const Reg nan = RCast(ISet(0x7fc00000));
  const Reg scale = RSet(PowerOf(a.exponent));
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t begin = unit % blocks * kSumColumns;
    const int64_t end = Smaller(a.hidden, begin + kSumColumns);
    for (int64_t h = begin; h < end; h += kLanes) {
      const int64_t count = end - h;
      I16 sum;
      JANUS_UNROLL for (int i = 0; i < kRegs; ++i) sum.r[i] = ISet(0);
      for (int j = 0; j < a.top_k; ++j) {
        const auto* const from = static_cast<const char*>(a.sums[t * a.top_k + j]);
        if (from == nullptr) continue;
        const I16 more = LoadSum<kBits>(from + h * (kBits / 8), count);
        JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
          sum.r[i] = IAddFixed(sum.r[i], more.r[i], none);
        }
      }
      V16 value;
      JANUS_UNROLL for (int i = 0; i < kRegs; ++i) {
        const RegI finite = RCast(RMul(RToFloat(sum.r[i]), scale));
        value.r[i] = RCast(ISelect(IXor(sum.r[i], none), RCast(nan), finite));
      }
      if (a.local != nullptr) {
        value = value + LoadUpTo<DType::kFloat32>(a.local + t * a.hidden + h, count);
      }
      const V16 residual = LoadUpTo<DType::kFloat32>(a.residual + t * a.hidden + h, count);
      StoreUpTo(DType::kFloat32, a.y + t * a.hidden + h, residual + value, count);
    }
  }
}

void CombineSumsPart(const CombineSumsArgs& a, int part, int parts) {
  a.bits == 24 ? CombineSumsRows<24>(a, part, parts) : CombineSumsRows<32>(a, part, parts);
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
