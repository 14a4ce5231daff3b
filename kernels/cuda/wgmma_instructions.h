#pragma once

// wgmma.mma_async of 64 rows by so many columns by 16, bfloat16 with fp32 sums, the columns from
// shared memory, the 64 rows from there too or from registers (PTX ISA, sm_90a). Each has its
// registers spelled out: inline assembly takes no array. For wgmma.h alone.

#include <cstdint>

namespace janus::kernels::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// clang-format off
#define JANUS_OPERANDS_8                                                                           \
  "%0, %1, %2, %3"
#define JANUS_OPERANDS_16                                                                          \
  JANUS_OPERANDS_8 ", "                                                                            \
  "%4, %5, %6, %7"
#define JANUS_OPERANDS_32                                                                          \
  JANUS_OPERANDS_16 ", "                                                                           \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define JANUS_OPERANDS_64                                                                          \
  JANUS_OPERANDS_32 ", "                                                                           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define JANUS_OPERANDS_96                                                                          \
  JANUS_OPERANDS_64 ", "                                                                           \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define JANUS_OPERANDS_128                                                                         \
  JANUS_OPERANDS_96 ", "                                                                           \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define JANUS_OPERANDS_192                                                                         \
  JANUS_OPERANDS_128 ", "                                                                          \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "               \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define JANUS_OPERANDS_256                                                                         \
  JANUS_OPERANDS_192 ", "                                                                          \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "               \
  "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "                 \
  "%123, %124, %125, %126, %127"
#define JANUS_FLOATS_4(at) "+f"(d[(at)]), "+f"(d[(at) + 1]), "+f"(d[(at) + 2]), "+f"(d[(at) + 3])
#define JANUS_FLOATS_8(at) JANUS_FLOATS_4(at), JANUS_FLOATS_4((at) + 4)
#define JANUS_FLOATS_16(at) JANUS_FLOATS_8(at), JANUS_FLOATS_8((at) + 8)
#define JANUS_FLOATS_32(at) JANUS_FLOATS_16(at), JANUS_FLOATS_16((at) + 16)
#define JANUS_FLOATS_64(at) JANUS_FLOATS_32(at), JANUS_FLOATS_32((at) + 32)
#define JANUS_FLOATS_96(at) JANUS_FLOATS_64(at), JANUS_FLOATS_32((at) + 64)
#define JANUS_FLOATS_128(at) JANUS_FLOATS_64(at), JANUS_FLOATS_64((at) + 64)

template <int kColumns, bool kTurned>
struct WgmmaInstruction;

// Numbers of the operands behind the registers of d: the descriptors, whether d is added to; where
// a is in registers those four of it before b's descriptor. Immediates: neither operand is negated,
// a is not transposed, b is where it is turned.
#define JANUS_WGMMA_OF(columns, turned, a_at, b_at, add_at, a0, a1, a2, a3, rb_at, radd_at, ...)   \
  template <>                                                                                      \
  struct WgmmaInstruction<columns, turned> {                                                       \
    __device__ static void Issue(float (&d)[(columns) / 2], uint64_t a, uint64_t b, int add) {     \
      asm volatile(                                                                                \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" #add_at                                         \
          ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {"                 \
          JANUS_OPERANDS_##columns "}, %" #a_at ", %" #b_at ", p, 1, 1, 0, " #turned ";\n}"        \
          : __VA_ARGS__                                                                            \
          : "l"(a), "l"(b), "r"(add));                                                             \
    }                                                                                              \
    __device__ static void Issue(float (&d)[(columns) / 2], const uint32_t (&a)[4], uint64_t b,    \
                                 int add) {                                                        \
      asm volatile(                                                                                \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %" #radd_at                                        \
          ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {"                 \
          JANUS_OPERANDS_##columns "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #rb_at          \
          ", p, 1, 1, " #turned ";\n}"                                                         \
          : __VA_ARGS__                                                                            \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                         \
    }                                                                                              \
  };
#define JANUS_WGMMA(columns, ...) JANUS_WGMMA_OF(columns, 0, __VA_ARGS__)
JANUS_WGMMA(8, 4, 5, 6, 4, 5, 6, 7, 8, 9, JANUS_FLOATS_4(0))
JANUS_WGMMA(16, 8, 9, 10, 8, 9, 10, 11, 12, 13, JANUS_FLOATS_8(0))
JANUS_WGMMA(32, 16, 17, 18, 16, 17, 18, 19, 20, 21, JANUS_FLOATS_16(0))
JANUS_WGMMA(64, 32, 33, 34, 32, 33, 34, 35, 36, 37, JANUS_FLOATS_32(0))
JANUS_WGMMA(128, 64, 65, 66, 64, 65, 66, 67, 68, 69, JANUS_FLOATS_64(0))
JANUS_WGMMA(192, 96, 97, 98, 96, 97, 98, 99, 100, 101, JANUS_FLOATS_96(0))
JANUS_WGMMA(256, 128, 129, 130, 128, 129, 130, 131, 132, 133, JANUS_FLOATS_128(0))
JANUS_WGMMA_OF(256, 1, 128, 129, 130, 128, 129, 130, 131, 132, 133, JANUS_FLOATS_128(0))
#undef JANUS_OPERANDS_8
#undef JANUS_OPERANDS_16
#undef JANUS_OPERANDS_32
#undef JANUS_OPERANDS_64
#undef JANUS_OPERANDS_96
#undef JANUS_OPERANDS_128
#undef JANUS_OPERANDS_192
#undef JANUS_OPERANDS_256
#undef JANUS_FLOATS_4
#undef JANUS_FLOATS_8
#undef JANUS_FLOATS_16
#undef JANUS_FLOATS_32
#undef JANUS_FLOATS_64
#undef JANUS_FLOATS_96
#undef JANUS_FLOATS_128
#undef JANUS_WGMMA
#undef JANUS_WGMMA_OF
// clang-format on

#endif

}  // namespace janus::kernels::cuda
