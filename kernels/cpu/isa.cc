#include "kernels/cpu/isa.h"

#include <cpuid.h>

#include <string>

namespace janus::kernels {
namespace {

// Comma-separated names of what `cpu` lacks for `isa`; empty if it has everything.
std::string Missing(const CpuFeatures& cpu, Isa isa) {
  std::string missing;
  const auto need = [&missing](bool present, std::string_view name) {
    if (present) return;
    if (!missing.empty()) missing += ", ";
    missing += name;
  };
  need(cpu.avx2, "AVX2");
  need(cpu.fma, "FMA");
  need(cpu.f16c, "F16C");
  if (isa >= Isa::kAvx512) {
    need(cpu.avx512f, "AVX512F");
    need(cpu.avx512bw, "AVX512BW");
    need(cpu.avx512dq, "AVX512DQ");
    need(cpu.avx512vl, "AVX512VL");
  }
  if (isa >= Isa::kAvx512Bf16) need(cpu.avx512bf16, "AVX512_BF16");
  return missing;
}

}  // namespace

std::string_view ToString(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX512";
    case Isa::kAvx512Bf16:
      return "AVX512-BF16";
  }
  return "unknown";
}

CpuFeatures DetectCpu() {
  __builtin_cpu_init();
  CpuFeatures cpu{
      .avx2 = __builtin_cpu_supports("avx2") != 0,
      .fma = __builtin_cpu_supports("fma") != 0,
      .avx512f = __builtin_cpu_supports("avx512f") != 0,
      .avx512bw = __builtin_cpu_supports("avx512bw") != 0,
      .avx512dq = __builtin_cpu_supports("avx512dq") != 0,
      .avx512vl = __builtin_cpu_supports("avx512vl") != 0,
  };
  // Clang 16's builtin knows neither of these two names. The builtin's answers above include that
  // the operating system saves the wide registers, which these two need as well.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) cpu.f16c = cpu.avx2 && (ecx >> 29 & 1u) != 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    cpu.avx512bf16 = cpu.avx512f && (eax >> 5 & 1u) != 0;
  }
  return cpu;
}

Result<Isa> SelectIsa(const CpuFeatures& cpu, std::optional<Isa> wanted) {
  if (const std::string missing = Missing(cpu, Isa::kAvx2); !missing.empty()) {
    return FailedPrecondition("this CPU lacks " + missing +
                              "; the CPU kernels need AVX2, FMA and F16C (x86-64-v3): use a newer "
                              "machine or another device");
  }
  if (wanted) {
    if (const std::string missing = Missing(cpu, *wanted); !missing.empty()) {
      return FailedPrecondition("instruction set " + std::string(ToString(*wanted)) +
                                " was asked for, but this CPU lacks " + missing);
    }
    return *wanted;
  }
  for (const Isa isa : {Isa::kAvx512Bf16, Isa::kAvx512}) {
    if (Missing(cpu, isa).empty()) return isa;
  }
  return Isa::kAvx2;
}

}  // namespace janus::kernels
