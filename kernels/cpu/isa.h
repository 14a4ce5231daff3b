#pragma once

#include <optional>
#include <string_view>

#include "common/status.h"

namespace janus::kernels {

// Instruction sets the CPU kernels are compiled for, lowest first. The choice is part of a role's
// numerics class: fp32 results are bitwise equal among them; 16-bit results are promised equal only
// within one of them.
enum class Isa : unsigned char {
  kAvx2 = 0,        // AVX2, FMA, F16C
  kAvx512 = 1,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16 = 2,  // and AVX512_BF16
};

std::string_view ToString(Isa isa);

// What a CPU (and its operating system, which must save the registers) offers.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512bf16 = false;
};

// Reads this machine's CPU. Cheap, but call it once.
CpuFeatures DetectCpu();

// The wanted instruction set, or the best one present when none is wanted. Pure.
// FailedPrecondition names each feature the CPU lacks for it.
Result<Isa> SelectIsa(const CpuFeatures& cpu, std::optional<Isa> wanted = std::nullopt);

}  // namespace janus::kernels
