#pragma once

// Products of a warpgroup on sm_90a: wgmma.mma_async over bfloat16 with fp32 sums (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions"). Operand a lies in shared memory or in
// registers, operand b in shared memory.
//
//   block.CopyingGroups<kPending>([&](auto& group) {
//     Fence(group);
//     MultiplyAsync<32>(group, [&](int thread) -> float(&)[16] { ... }, a, b, add);
//     Commit(group);
//     Wait<1>(group);  // all but the newest group are done
//   });
//
//   a, 64 x 16, b, 16 x N: matrices of which a row (of b a column) has its elements of the inner
//            axis one after the other, by descriptors: Matrix. Of a turned b rows of the inner axis
//            have their columns one after the other: TurnedMatrix, MultiplyAsync<N, true>.
//   a in registers: a(thread)[i], two elements each, the lower bits first. Row t/32*16 + t%32/4 +
//            8*(i%2), columns 2*(t%4) + 8*(i/2) and the next.
//   d, 64 x N:  d(thread)[i] of the group's threads by their numbers t in it. Row t/32*16 + t%32/4
//            + 8*(i/2%2), column 8*(i/4) + 2*(t%4) + i%2.
//
// Between MultiplyAsync and the Wait for its group, no code may touch the registers d and a.
// Operands in shared memory must not change until the end of that Wait's CopyingGroups, because a
// warp waits for its own part alone. What a thread writes to shared memory is visible to wgmma
// after the end of a CopyingGroups (block.h). A group of products begins with Fence, because code
// may have touched its registers before, and has only products until its Commit. Products of one d
// are added in their order.
//
// If code before the group branches, d may lie in different registers. Then Settle(group, d) goes
// before Fence, so that the compiler moves the registers there. After the fence a move would make
// it serialize the products. For the same reason, wait in the branch for products that begin in it.
//
// The PTX ISA does not specify in which order the tensor cores add the 17 terms of one element. It
// may differ from that of mma.sync. The host form (host_products.h) adds them from the first to the
// last, with one rounding each.

#include "kernels/cuda/block.h"
#include "kernels/cuda/wgmma_instructions.h"

namespace janus::kernels::cuda {

inline constexpr int kWgmmaOutputs = 64;  // rows of a
inline constexpr int kWgmmaInner = 16;

// Rows of 128 bytes, 64 elements of the inner axis, in groups of 8: 1,024 bytes that begin at a
// multiple of as many, one group behind the other. Chunk c of 16 bytes of row r lies at
// SwizzledOffset(r, c), so that the same chunk of 8 rows is in different banks.
inline constexpr int kSwizzledRow = 128;
JANUS_DEVICE constexpr int SwizzledOffset(int row, int chunk) {
  return row * kSwizzledRow + (chunk ^ row % 8) * kCopyBytes;
}

// A descriptor of 16 elements of the inner axis of such rows.
class Matrix {
 public:
  template <class Group>
  JANUS_DEVICE Matrix(Group& group, const unsigned char* rows)
      : bits_(uint64_t{(group.SharedAddress(rows) & 0x3FFFFu) >> 4} | kForm) {}
  // Those from element kWgmmaInner * `inner` on, below 64. The swizzle is of addresses, so it is
  // enough to begin further on in the first row.
  JANUS_DEVICE uint64_t At(int inner) const {
    return bits_ + static_cast<uint64_t>(inner * (2 * kWgmmaInner) >> 4);
  }

 private:
  // 128-byte swizzle; 8 rows in 1,024 bytes; the offset that this layout does not use.
  static constexpr uint64_t kForm =
      uint64_t{1} << 62 | uint64_t{8 * kSwizzledRow >> 4} << 32 | uint64_t{1} << 16;
  uint64_t bits_;
};

// A descriptor of a turned b, of 16 rows of the inner axis: the rows of SwizzledOffset, each with
// 64 columns of b. The next 64 columns lie kPieceBytes further. In the PTX ISA's words N-major,
// with the canonical layout ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)) under a swizzle of 128 bytes: LBO
// is kPieceBytes, SBO the 1,024 bytes of 8 rows.
template <int kPieceBytes>
class TurnedMatrix {
 public:
  // `rows` begins at a multiple of 1,024 bytes.
  template <class Group>
  JANUS_DEVICE TurnedMatrix(Group& group, const unsigned char* rows)
      : bits_(uint64_t{(group.SharedAddress(rows) & 0x3FFFFu) >> 4} | kForm) {}
  // The 16 rows from row kWgmmaInner * `inner` on.
  JANUS_DEVICE uint64_t At(int inner) const {
    return bits_ + static_cast<uint64_t>(inner * (kWgmmaInner * kSwizzledRow) >> 4);
  }

 private:
  static_assert(kPieceBytes % (8 * kSwizzledRow) == 0 && kPieceBytes < 1 << 18);
  static constexpr uint64_t kForm =
      uint64_t{1} << 62 | uint64_t{8 * kSwizzledRow >> 4} << 32 | uint64_t{kPieceBytes >> 4} << 16;
  uint64_t bits_;
};

#ifdef __CUDACC__

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void Fence(DeviceGroup&) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <class Sums>
__device__ void Settle(DeviceGroup& group, Sums sums) {
  auto& d = sums(group.thread());
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof d / sizeof d[0]); ++i) {
    asm volatile("" : "+f"(d[i])::"memory");
  }
}
__device__ inline void Commit(DeviceGroup&) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ void Wait(DeviceGroup&) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// d = a * b, and + d where `add`. In CopyingGroups. MultiplyRegisters: with a(thread).
template <int kColumns, bool kTurned = false, class Sums>
__device__ void MultiplyAsync(DeviceGroup& group, Sums sums, uint64_t a, uint64_t b, bool add) {
  WgmmaInstruction<kColumns, kTurned>::Issue(sums(group.thread()), a, b, add ? 1 : 0);
}
template <int kColumns, class Sums, class A>
__device__ void MultiplyRegisters(DeviceGroup& group, Sums sums, A a, uint64_t b, bool add) {
  WgmmaInstruction<kColumns, false>::Issue(sums(group.thread()), a(group.thread()), b, add ? 1 : 0);
}

#else

// Only compiled, so that a build can be for other architectures too; never started there.
__device__ inline void Fence(DeviceGroup&) {
  __trap();
}
template <class Sums>
__device__ void Settle(DeviceGroup&, Sums) {}
__device__ inline void Commit(DeviceGroup&) {}
template <int kPending>
__device__ void Wait(DeviceGroup&) {}
template <int kColumns, bool kTurned = false, class Sums>
__device__ void MultiplyAsync(DeviceGroup&, Sums, uint64_t, uint64_t, bool) {}
template <int kColumns, class Sums, class A>
__device__ void MultiplyRegisters(DeviceGroup&, Sums, A, uint64_t, bool) {}

#endif

// A word of shared memory, 4-byte aligned, into to(thread) from from(thread).
template <class To, class From>
__device__ void LoadWord(DeviceGroup& group, To to, From from) {
  const uint32_t address = group.SharedAddress(from(group.thread()));
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to(group.thread())) : "r"(address) : "memory");
}
// Four words, 16-byte aligned.
template <class To, class From>
__device__ void LoadFourWords(DeviceGroup& group, To to, From from) {
  uint32_t(&r)[4] = to(group.thread());
  const uint32_t address = group.SharedAddress(from(group.thread()));
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
// fn(thread) on every thread, without a barrier: each thread must touch only its own registers.
template <class Fn>
__device__ void ForThreads(DeviceGroup& group, Fn fn) {
  fn(group.thread());
}

#else

inline void Fence(HostGroup& group) {
  group.Together();
  group.products().Fence();
}
template <class Sums>
void Settle(HostGroup&, Sums) {}
inline void Commit(HostGroup& group) {
  group.Together();
  group.products().Commit(group.random());
}
template <int kPending>
void Wait(HostGroup& group) {
  group.Together();
  group.products().Wait(kPending);
}
template <int kColumns, bool kTurned = false, class Sums>
void MultiplyAsync(HostGroup& group, Sums sums, uint64_t a, uint64_t b, bool add) {
  group.Together();
  const auto registers = [&](int thread) {
    float(&d)[kColumns / 2] = sums(group.index() * kGroupThreads + thread);
    return d;
  };
  group.products().Multiply(registers, a, b, kColumns, add, kTurned);
}
template <int kColumns, class Sums, class A>
void MultiplyRegisters(HostGroup& group, Sums sums, A a, uint64_t b, bool add) {
  group.Together();
  const int first = group.index() * kGroupThreads;
  const auto registers = [&](int thread) {
    float(&d)[kColumns / 2] = sums(first + thread);
    return d;
  };
  group.products().MultiplyRegisters(
      registers,
      [&](int thread) {
        const uint32_t(&of)[4] = a(first + thread);
        return of;
      },
      b, kColumns, add);
}

template <class Fn>
void ForThreads(HostGroup& group, Fn fn) {
  group.Together();
  group.products().Touch();
  for (int i = 0; i < kGroupThreads; ++i) fn(group.index() * kGroupThreads + i);
}
// take(thread, bytes) of what `kBytes` bytes each thread of a group reads; a warp takes its turns
// in parts of so many threads as read 128 bytes. Threads of a part may read the same.
template <int kBytes, class From, class Take>
void LoadByThreads(HostGroup& group, From from, Take take) {
  constexpr int kPart = 128 / kBytes;
  const unsigned char* read[kPart];
  ForThreads(group, [&](int thread) {
    const auto* const bytes = static_cast<const unsigned char*>(from(thread));
    JANUS_CHECK(reinterpret_cast<uintptr_t>(bytes) % kBytes == 0, thread);
    take(thread, bytes);
    read[thread % kPart] = bytes;
    if (thread % kPart != kPart - 1) return;
    const unsigned char* of_bank[kPart] = {};
    bool conflicts = false;
    for (const unsigned char* const other : read) {
      const unsigned char*& is = of_bank[reinterpret_cast<uintptr_t>(other) % 128 / kBytes];
      conflicts = conflicts || (is != nullptr && is != other);
      is = other;
    }
    if (conflicts) Count(host_bank_conflicts);
  });
}
template <class To, class From>
void LoadWord(HostGroup& group, To to, From from) {
  LoadByThreads<4>(group, from, [&](int thread, const unsigned char* bytes) {
    std::memcpy(&to(thread), bytes, 4);
  });
}
template <class To, class From>
void LoadFourWords(HostGroup& group, To to, From from) {
  LoadByThreads<16>(group, from, [&](int thread, const unsigned char* bytes) {
    std::memcpy(to(thread), bytes, 16);
  });
}

#endif

}  // namespace janus::kernels::cuda
