#include "bench/gpu/tensor_rate.h"

#include "bench/gpu/stream_times.h"
#include "common/philox.h"
#include "kernels/cuda/start.h"

namespace janus::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Two bfloat16 or four fp8 numbers, uniform and finite, different for each place.
template <bool kFloat8>
__device__ uint32_t RandomWord(uint32_t place) {
  const auto words = Philox4x32({place, 0, 0, 0}, {5, 0});
  if constexpr (kFloat8) {
    uint32_t four = 0;
    for (int i = 0; i < 4; ++i) {
      const auto byte = static_cast<float>(words[0] >> (8 * i) & 0xFFu);
      four |= uint32_t{ToFloat8E4M3(byte / 128.0f - 1.0f)} << (8 * i);
    }
    return four;
  } else {
    const auto half = [&](int i) {
      const auto bits = static_cast<float>(words[0] >> (16 * i) & 0xFFFFu);
      return uint32_t{ToBFloat16(bits / 32768.0f - 1.0f)};
    };
    return half(0) | half(1) << 16;
  }
}

// ---- wgmma: each of two warpgroups multiplies its 64 rows by 256 columns that both read

constexpr int kColumns = 256;
constexpr int kProducts = 16;  // between two waits
constexpr int kWgmmaTurns = 500;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kRowBytes = 128;  // of the inner axis, swizzled over 1,024 bytes (PTX ISA)

#define JANUS_SUMS_4(at) "+f"(d[(at)]), "+f"(d[(at) + 1]), "+f"(d[(at) + 2]), "+f"(d[(at) + 3])
#define JANUS_SUMS_16(at) \
  JANUS_SUMS_4(at), JANUS_SUMS_4((at) + 4), JANUS_SUMS_4((at) + 8), JANUS_SUMS_4((at) + 12)
#define JANUS_SUMS_64(at) \
  JANUS_SUMS_16(at), JANUS_SUMS_16((at) + 16), JANUS_SUMS_16((at) + 32), JANUS_SUMS_16((at) + 48)
// clang-format off
#define JANUS_PRODUCT(shape_and_types, transposed)                                                 \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned." shape_and_types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "           \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "           \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "           \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "           \
      "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "       \
      "%124, %125, %126, %127}, %128, %129, p, 1, 1" transposed ";\n}"                             \
      : JANUS_SUMS_64(0), JANUS_SUMS_64(64)                                                        \
      : "l"(a), "l"(b))
// clang-format on

template <bool kFloat8>
__device__ void Product(float (&d)[128], uint64_t a, uint64_t b) {
  if constexpr (kFloat8) {
    JANUS_PRODUCT("m64n256k32.f32.e4m3.e4m3", "");
  } else {
    JANUS_PRODUCT("m64n256k16.f32.bf16.bf16", ", 0, 0");
  }
}

#undef JANUS_PRODUCT
#undef JANUS_SUMS_64
#undef JANUS_SUMS_16
#undef JANUS_SUMS_4

// A descriptor of rows from `address` on, as in kernels/cuda/wgmma.h.
__device__ uint64_t Descriptor(const unsigned char* rows) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(rows));
  return uint64_t{(address & 0x3FFFFu) >> 4} | uint64_t{1} << 62 |
         uint64_t{8 * kRowBytes >> 4} << 32 | uint64_t{1} << 16;
}

#endif

template <bool kFloat8>
__global__ void __launch_bounds__(kThreads, 1) WgmmaProducts(float* out) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kOperandBytes = (2 * 64 + kColumns) * kRowBytes;
  __shared__ alignas(1024) unsigned char operands[kOperandBytes];
  // With random numbers it does not matter where the swizzle puts each.
  for (uint32_t i = threadIdx.x; i < kOperandBytes / 4; i += kThreads) {
    reinterpret_cast<uint32_t*>(operands)[i] =
        RandomWord<kFloat8>(blockIdx.x * (kOperandBytes / 4) + i);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t a = Descriptor(operands + threadIdx.x / 128 * (64 * kRowBytes));
  const uint64_t b = Descriptor(operands + 2 * 64 * kRowBytes);
  float d[kColumns / 2] = {};
#pragma unroll 1
  for (int turn = 0; turn < kWgmmaTurns; ++turn) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const uint64_t inner = i % 4 * 32 >> 4;  // the next 32 bytes of each row
      Product<kFloat8>(d, a + inner, b + inner);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0.0f;
  for (const float of : d) sum += of;
  if (sum == 0x5EED.8p-20f) *out = sum;  // keeps the products alive
#endif
}

// ---- mma.sync: each warp multiplies 32 rows by 32 columns, operands and sums in registers

constexpr int kMmaTurns = 4000;
constexpr int kMmaBlocks = 2;  // per multiprocessor
constexpr int kMmaTiles = 8;   // of a warp, 16 by 8 each

template <bool kFloat8>
__device__ void MmaProduct(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 890
  if constexpr (kFloat8) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
  if constexpr (!kFloat8) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

template <bool kFloat8>
__global__ void __launch_bounds__(kThreads, kMmaBlocks) MmaProducts(float* out) {
  const uint32_t place = 16 * (blockIdx.x * kThreads + threadIdx.x);
  uint32_t a[2][4];
  uint32_t b[4][2];
  for (uint32_t i = 0; i < 8; ++i) {
    a[i / 4][i % 4] = RandomWord<kFloat8>(place + i);
    b[i / 2][i % 2] = RandomWord<kFloat8>(place + 8 + i);
  }
  float d[kMmaTiles][4] = {};
#pragma unroll 1
  for (int turn = 0; turn < kMmaTurns; ++turn) {
#pragma unroll
    for (int i = 0; i < kMmaTiles; ++i) MmaProduct<kFloat8>(d[i], a[i / 4], b[i % 4]);
  }
  float sum = 0.0f;
  for (const auto& tile : d) {
    for (const float of : tile) sum += of;
  }
  if (sum == 0x5EED.8p-20f) *out = sum;
}

// ---- Choice of the instruction

int Capability() {
  int major = 0, minor = 0;
  Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "device");
  Check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "device");
  return 10 * major + minor;
}

template <bool kFloat8>
int64_t StartOf(cudaStream_t stream, float* out) {
  const int64_t inner = kFloat8 ? 32 : 16;
  const int64_t processors = DeviceMultiprocessors();
  if (DeviceHasWgmma()) {
    WgmmaProducts<kFloat8><<<static_cast<unsigned>(processors), kThreads, 0, stream>>>(out);
    Check(cudaGetLastError(), "products");
    return processors * 2 * kWgmmaTurns * kProducts * (2 * 64 * kColumns * inner);
  }
  if (kFloat8 && Capability() < 89) return 0;
  const int64_t blocks = kMmaBlocks * processors;
  MmaProducts<kFloat8><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(out);
  Check(cudaGetLastError(), "products");
  return blocks * (kThreads / 32) * kMmaTurns * kMmaTiles * (2 * 16 * 8 * inner);
}

}  // namespace

int64_t StartProducts(cudaStream_t stream, DType type, float* out) {
  return type == DType::kFloat8E4M3 ? StartOf<true>(stream, out) : StartOf<false>(stream, out);
}

const char* InstructionOfProducts() {
  return DeviceHasWgmma() ? "wgmma" : "mma.sync";
}

double ComputedPeak() {
  int khz = 0;
  Check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "device");
  // Operations in bfloat16 per cycle: the rates in data sheets of A100, H100 and B200, divided by
  // multiprocessors and clocks.
  const int major = Capability() / 10;
  const double of_cycle = major == 10 ? 8192.0 : major == 9 ? 4096.0 : 2048.0;
  return of_cycle * static_cast<double>(DeviceMultiprocessors()) * khz / 1000.0;
}

}  // namespace janus::kernels::cuda
