#pragma once

// What the tensor cores multiply, and how it comes from shared memory into the registers of a
// warp's lanes: mma.sync.m16n8k16 over bfloat16 with fp32 sums, and ldmatrix (PTX ISA, "Matrix
// Fragments for mma.m16n8k16" and "ldmatrix"; sm_80 and later).
//
//   a, 16 x 16: a(lane)[i], two elements each, the lower bits first. Row lane/4 + 8*(i%2), columns
//               2*(lane%4) + 8*(i/2) and the next.
//   b, 16 x 8:  b(lane)[i], likewise. Rows 2*(lane%4) + 8*i and the next, column lane/4.
//   c, 16 x 8:  c(lane)[i]. Row lane/4 + 8*(i/2), column 2*(lane%4) + i%2.
//
// Both are done by a warp's lanes together and therefore stand between steps (warp.h). The host
// form takes every element from the lane and the register that hold it, so that a wrong fragment
// gives wrong numbers there too.
//
// In which order the tensor cores add the 17 terms of one element of c, and how they round under
// way, is not specified: the same for the same terms, and that alone is what batch invariance
// needs. The host form adds them to c from the first to the last, with one rounding each.

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

// c += a * b.
template <class C, class A, class B>
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

// How often a matrix was read whose rows do not lie in banks of their own: the GPU then takes
// turns. Of this thread.
inline thread_local int64_t host_bank_conflicts = 0;

// take(i, row, bytes) for each row of the four matrices.
template <class From, class Take>
void ForEachMatrixRow(HostWarp& warp, From from, Take take) {
  warp.Together();
  for (int i = 0; i < 4; ++i) {
    uint32_t banks = 0;
    for (int row = 0; row < 8; ++row) {
      const auto* const bytes = static_cast<const unsigned char*>(from(8 * i + row));
      const auto address = reinterpret_cast<uintptr_t>(bytes);
      JANUS_CHECK(address % kCopyBytes == 0, i, row);
      banks |= 1u << (address % 128 / kCopyBytes);
      take(i, row, bytes);
    }
    host_bank_conflicts += CountBits(banks) != 8 ? 1 : 0;
  }
}

template <class To, class From>
void LoadMatrices(HostWarp& warp, To to, From from) {
  ForEachMatrixRow(warp, from, [&](int i, int row, const unsigned char* bytes) {
    for (int pair = 0; pair < 4; ++pair) std::memcpy(&to(4 * row + pair)[i], bytes + 4 * pair, 4);
  });
}

template <class To, class From>
void LoadTransposed(HostWarp& warp, To to, From from) {
  ForEachMatrixRow(warp, from, [&](int i, int row, const unsigned char* bytes) {
    for (int column = 0; column < 8; ++column) {
      auto* const pair = reinterpret_cast<unsigned char*>(&to(4 * column + row / 2)[i]);
      std::memcpy(pair + 2 * (row % 2), bytes + 2 * column, 2);
    }
  });
}

inline float HalfOf(uint32_t pair, int half) {
  return FromBFloat16(static_cast<uint16_t>(pair >> (16 * half)));
}

template <class C, class A, class B>
void MultiplyAdd(HostWarp& warp, C c_of, A a_of, B b_of) {
  warp.Together();
  float a[16][16];
  float b[16][8];
  for (int k = 0; k < 16; ++k) {
    const int pair = k % 8 / 2;
    for (int m = 0; m < 16; ++m) {
      a[m][k] = HalfOf(a_of(m % 8 * 4 + pair)[m / 8 + k / 8 * 2], k % 2);
    }
    for (int n = 0; n < 8; ++n) b[k][n] = HalfOf(b_of(n * 4 + pair)[k / 8], k % 2);
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

}  // namespace janus::kernels::cuda
