#pragma once

// Products on tensor cores, and loads of their operands from shared memory into the registers of a
// warp's lanes: mma.sync.m16n8k16 over bfloat16 with fp32 sums, and ldmatrix (PTX ISA, "Matrix
// Fragments for mma.m16n8k16" and "ldmatrix"; sm_80 and later).
//
//   a, 16 x 16: a(lane)[i], two elements each, the lower bits first. Row lane/4 + 8*(i%2), columns
//               2*(lane%4) + 8*(i/2) and the next.
//   b, 16 x 8:  b(lane)[i], likewise. Rows 2*(lane%4) + 8*i and the next, column lane/4.
//   c, 16 x 8:  c(lane)[i]. Row lane/4 + 8*(i/2), column 2*(lane%4) + i%2.
//
// Both are operations of the whole warp and therefore stand between steps (warp.h). The host form
// takes every element from the lane and the register that hold it, so that a wrong fragment gives
// wrong numbers there too.
//
// The PTX ISA does not specify in which order the tensor cores add the 17 terms of one element of
// c, or how they round in between. Batch invariance needs only that equal terms give equal results.
// The host form adds the terms to c from the first to the last, with one rounding each. The caller
// says which is the first, since a and b may hold the 16 in any order that they share.
//
// Weights in fp8 and mxfp4 are multiplied as the bfloat16 of the same value: ExpandFloat8,
// BFloat16OfMxfp4.

#include <cstdint>

#include "kernels/cuda/warp.h"

#ifndef __CUDACC__
#include <cmath>
#include <cstring>

#include "common/dtype.h"
#endif

namespace janus::kernels::cuda {

// Elements of a bfloat16 row that ldmatrix and CopyAsync take at once.
inline constexpr int kChunk = kCopyBytes / 2;

// In which places of the fragments' inner axis the 16 elements of one multiplication lie.
enum class InnerOrder {
  kInPlace,     // as above
  kNeighbours,  // a(lane)[0], a(lane)[2] have elements 4*(lane%4) to 4*(lane%4)+3, in this order
};

#ifdef __CUDACC__

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "tensor.h is for sm_80 and later"
#endif

// Four matrices of 8 rows of 16 bytes: from(lane) is where row lane%8 of matrix lane/8 lies, in
// shared memory and 16-byte aligned. to(lane)[i] gets elements 2*(lane%4) and the next of row
// lane/4 of matrix i.
template <class To, class From>
__device__ void LoadMatrices(DeviceWarp& warp, To to, From from) {
  uint32_t(&r)[4] = to(warp.lane());
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(from(warp.lane())));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// As LoadMatrices, transposed: to(lane)[i] gets of rows 2*(lane%4) and the next the element lane/4.
template <class To, class From>
__device__ void LoadTransposed(DeviceWarp& warp, To to, From from) {
  uint32_t(&r)[4] = to(warp.lane());
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(from(warp.lane())));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// As LoadTransposed, of two matrices: from(lane) of the first 16 lanes is where their rows lie.
template <class To, class From>
__device__ void LoadTransposedPair(DeviceWarp& warp, To to, From from) {
  uint32_t(&r)[2] = to(warp.lane());
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(from(warp.lane() % 16)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}

// 8 bytes of shared memory, 8-byte aligned: to(lane)[0] and [1].
template <class To, class From>
__device__ void LoadNeighbours(DeviceWarp& warp, To to, From from) {
  uint32_t(&r)[2] = to(warp.lane());
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(from(warp.lane())));
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}

// Bytes kFirst and kSecond, each with its sign in all bits of the byte above it.
template <int kFirst, int kSecond>
__device__ uint32_t SpreadBytes(uint32_t four) {
  constexpr int kSign = 8;
  constexpr int kBytes = kFirst | (kFirst | kSign) << 4 | kSecond << 8 | (kSecond | kSign) << 12;
  uint32_t spread;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(spread) : "r"(four), "n"(kBytes));
  return spread;
}
// Of the bytes of `low` (0 to 3) and `high` (4 to 7) the four that the selector's lower half-bytes
// number; of one that is numbered 8 more, its sign in all bits.
__device__ inline uint32_t PermuteBytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
  return bytes;
}
// Products of the halves, bfloat16 each.
__device__ inline uint32_t TimesHalves(uint32_t pair, uint32_t factors) {
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(product)
      : "r"(pair), "r"(factors), "r"(0x80008000u));  // -0: so that -0 stays
  return product;
}

// c += a * b.
template <InnerOrder = InnerOrder::kInPlace, class C, class A, class B>
__device__ void MultiplyAdd(DeviceWarp& warp, C c_of, A a_of, B b_of) {
  float(&c)[4] = c_of(warp.lane());
  const uint32_t* const a = a_of(warp.lane());
  const uint32_t* const b = b_of(warp.lane());
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

// take(i, row, bytes) for each row of the matrices.
template <int kMatrices, class From, class Take>
void ForEachMatrixRow(HostWarp& warp, From from, Take take) {
  warp.Together();
  for (int i = 0; i < kMatrices; ++i) {
    uint32_t banks = 0;
    for (int row = 0; row < 8; ++row) {
      const auto* const bytes = static_cast<const unsigned char*>(from(8 * i + row));
      const auto address = reinterpret_cast<uintptr_t>(bytes);
      JANUS_CHECK(address % kCopyBytes == 0, i, row);
      banks |= 1u << (address % 128 / kCopyBytes);
      take(i, row, bytes);
    }
    if (CountBits(banks) != 8) Count(host_bank_conflicts);
  }
}

template <class To, class From>
void LoadMatrices(HostWarp& warp, To to, From from) {
  ForEachMatrixRow<4>(warp, from, [&](int i, int row, const unsigned char* bytes) {
    for (int pair = 0; pair < 4; ++pair) std::memcpy(&to(4 * row + pair)[i], bytes + 4 * pair, 4);
  });
}

template <int kMatrices, class To, class From>
void LoadEachTransposed(HostWarp& warp, To to, From from) {
  ForEachMatrixRow<kMatrices>(warp, from, [&](int i, int row, const unsigned char* bytes) {
    for (int column = 0; column < 8; ++column) {
      auto* const pair = reinterpret_cast<unsigned char*>(&to(4 * column + row / 2)[i]);
      std::memcpy(pair + 2 * (row % 2), bytes + 2 * column, 2);
    }
  });
}
template <class To, class From>
void LoadTransposed(HostWarp& warp, To to, From from) {
  LoadEachTransposed<4>(warp, to, from);
}
template <class To, class From>
void LoadTransposedPair(HostWarp& warp, To to, From from) {
  LoadEachTransposed<2>(warp, to, from);
}

template <class To, class From>
void LoadNeighbours(HostWarp& warp, To to, From from) {
  warp.Together();
  for (int first = 0; first < kLanes; first += kLanes / 2) {
    uint32_t banks = 0;  // in pairs
    for (int lane = first; lane < first + kLanes / 2; ++lane) {
      const auto* const bytes = static_cast<const unsigned char*>(from(lane));
      const auto address = reinterpret_cast<uintptr_t>(bytes);
      JANUS_CHECK(address % 8 == 0, lane);
      banks |= 1u << (address % 128 / 8);
      std::memcpy(to(lane), bytes, 8);
    }
    if (CountBits(banks) != kLanes / 2) Count(host_bank_conflicts);
  }
}

inline float HalfOf(uint32_t pair, int half) {
  return FromBFloat16(static_cast<uint16_t>(pair >> (16 * half)));
}

template <int kFirst, int kSecond>
uint32_t SpreadBytes(uint32_t four) {
  const auto spread = [&](int byte) {
    const auto value = static_cast<int8_t>(four >> (8 * byte));
    return static_cast<uint32_t>(static_cast<uint16_t>(value));
  };
  return spread(kFirst) | spread(kSecond) << 16;
}
inline uint32_t PermuteBytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t number = selector >> (4 * i) & 15u;
    const auto byte = static_cast<uint8_t>((number % 8 < 4 ? low : high) >> (8 * (number % 4)));
    const uint32_t taken = number < 8 ? byte : byte >= 0x80u ? 0xFFu : 0u;
    bytes |= taken << (8 * i);
  }
  return bytes;
}
inline uint32_t TimesHalves(uint32_t pair, uint32_t factors) {
  const auto product = [&](int half) {
    return static_cast<uint32_t>(ToBFloat16(HalfOf(pair, half) * HalfOf(factors, half)));
  };
  return product(0) | product(1) << 16;
}

template <InnerOrder kOrder = InnerOrder::kInPlace, class C, class A, class B>
void MultiplyAdd(HostWarp& warp, C c_of, A a_of, B b_of) {
  warp.Together();
  float a[16][16];
  float b[16][8];
  for (int k = 0; k < 16; ++k) {
    constexpr bool kInPlace = kOrder == InnerOrder::kInPlace;
    const int lane = kInPlace ? k % 8 / 2 : k / 4;
    const int upper = kInPlace ? k / 8 : k % 4 / 2;
    for (int m = 0; m < 16; ++m) {
      a[m][k] = HalfOf(a_of(m % 8 * 4 + lane)[m / 8 + upper * 2], k % 2);
    }
    for (int n = 0; n < 8; ++n) b[k][n] = HalfOf(b_of(n * 4 + lane)[upper], k % 2);
  }
  for (int m = 0; m < 16; ++m) {
    float sum[8];
    for (int n = 0; n < 8; ++n) sum[n] = c_of(m % 8 * 4 + n / 2)[m / 8 * 2 + n % 2];
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) sum[n] = std::fma(a[m][k], b[k][n], sum[n]);
    }
    for (int n = 0; n < 8; ++n) c_of(m % 8 * 4 + n / 2)[m / 8 * 2 + n % 2] = sum[n];
  }
}

#endif

// Two fp8 E4M3 as bfloat16, each with its sign in bits 7 to 15: exponent and fraction move to where
// bfloat16 has them, which is the value times 2^-120, subnormals included. Not for NaN.
JANUS_DEVICE inline uint32_t BFloat16OfFloat8(uint32_t spread) {
  return TimesHalves(spread << 4 & 0x87F087F0u, 0x7B807B80u);
}

// fn(lane) on every lane, without a barrier: each lane must touch only its own registers.
template <class Warp, class Fn>
JANUS_DEVICE void ForLanes(Warp& warp, Fn fn) {
#ifdef __CUDACC__
  fn(warp.lane());
#else
  warp.Together();
  for (int lane = 0; lane < kLanes; ++lane) fn(lane);
#endif
}

// from(lane) is four fp8 E4M3, none of them NaN, the lower bits first: low(lane) gets the first two
// as bfloat16, high(lane) the others. Exact.
template <class Warp, class From, class Low, class High>
JANUS_DEVICE void ExpandFloat8(Warp& warp, From from, Low low, High high) {
  ForLanes(warp, [&](int lane) {
    const uint32_t four = from(lane);
    low(lane) = BFloat16OfFloat8(SpreadBytes<0, 1>(four));
    high(lane) = BFloat16OfFloat8(SpreadBytes<2, 3>(four));
  });
}

// As ExpandFloat8, of what LoadTransposed loads where elements are fp8: two neighbours of each of
// two rows. even(lane) gets the first neighbour of both rows, odd(lane) the second. Together they
// are 8 columns of a fragment in which rows r and r + 8 are neighbours.
template <class Warp, class From, class Even, class Odd>
JANUS_DEVICE void ExpandTransposed(Warp& warp, From from, Even even, Odd odd) {
  ForLanes(warp, [&](int lane) {
    const uint32_t four = from(lane);
    even(lane) = BFloat16OfFloat8(SpreadBytes<0, 2>(four));
    odd(lane) = BFloat16OfFloat8(SpreadBytes<1, 3>(four));
  });
}

// In each group of four consecutive lanes, byte i of lane j's word and byte j of lane i's word
// change places.
template <class Warp, class Word>
JANUS_DEVICE void TransposeBytes(Warp& warp, Word word) {
  const auto own = [&](int lane) -> uint32_t { return word(lane); };
  warp.Exchange(2, own, [&](int lane, uint32_t theirs) {
    word(lane) = PermuteBytes(word(lane), theirs, (lane & 2) == 0 ? 0x5410 : 0x3276);
  });
  warp.Exchange(1, own, [&](int lane, uint32_t theirs) {
    word(lane) = PermuteBytes(word(lane), theirs, (lane & 1) == 0 ? 0x6240 : 0x3715);
  });
}

// The factors that make bfloat16 of E2M1. Exponent and fraction are moved to their places in
// bfloat16, which gives the value times 2^-126, 0.5 included. The product of both factors is 2^126
// times the scale.
struct Mxfp4Factors {
  uint32_t first = 0;  // 2^125, used only with kIsLarge
  uint32_t second = 0;
};
// The factors of byte `block` of four E8M0 scales. Scales of 4 or more need kIsLarge: 2^126 times
// such a scale is beyond bfloat16, so it takes two factors. Callers set kIsLarge for scales of 2 or
// more, because these have the top bit of their byte.
template <bool kIsLarge>
JANUS_DEVICE Mxfp4Factors FactorsOf(uint32_t scales, uint32_t block) {
  const uint32_t both = PermuteBytes(scales, 0, 0x4040u | block << 8 | block);
  if constexpr (kIsLarge) return {0x7E007E00u, both * 128 + 0x00800080u};  // 2^125
  return {0, both * 128 + 0x3F003F00u};
}
// Says which byte of eight E2M1 is turned: its numbers each with its sign in bits 7 to 15, exponent
// and fraction in bits 4 to 6, of what is shifted by 4 and of what is not.
JANUS_DEVICE constexpr uint32_t PickOfMxfp4(uint32_t byte) {
  return byte * 0x1111u + 0xC480u;
}
// The two of it times the factors.
template <bool kIsLarge>
JANUS_DEVICE uint32_t BFloat16OfMxfp4(uint32_t eight, uint32_t pick, const Mxfp4Factors& factors) {
  uint32_t pair = PermuteBytes(eight << 4, eight, pick) << 2 & 0x81C081C0u;
  if constexpr (kIsLarge) pair = TimesHalves(pair, factors.first);
  return TimesHalves(pair, factors.second);
}
template <bool kIsLarge, int kByte>
JANUS_DEVICE uint32_t BFloat16OfMxfp4(uint32_t eight, const Mxfp4Factors& factors) {
  return BFloat16OfMxfp4<kIsLarge>(eight, PickOfMxfp4(kByte), factors);
}

}  // namespace janus::kernels::cuda
