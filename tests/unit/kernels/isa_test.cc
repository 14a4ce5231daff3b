#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

namespace janus::kernels {
namespace {

constexpr CpuFeatures kV3{.avx2 = true, .fma = true, .f16c = true};
constexpr CpuFeatures kV4{.avx2 = true,
                          .fma = true,
                          .f16c = true,
                          .avx512f = true,
                          .avx512bw = true,
                          .avx512dq = true,
                          .avx512vl = true};

TEST(SelectIsa, TakesTheBestPresent) {
  EXPECT_EQ(SelectIsa(kV3).value(), Isa::kAvx2);
  EXPECT_EQ(SelectIsa(kV4).value(), Isa::kAvx512);
  CpuFeatures bf16 = kV4;
  bf16.avx512bf16 = true;
  EXPECT_EQ(SelectIsa(bf16).value(), Isa::kAvx512Bf16);
}

TEST(SelectIsa, TakesALowerOneWhenAsked) {
  EXPECT_EQ(SelectIsa(kV4, Isa::kAvx2).value(), Isa::kAvx2);
}

TEST(SelectIsa, NeedsEveryPartOfAvx512) {
  CpuFeatures cpu = kV4;
  cpu.avx512bw = false;
  EXPECT_EQ(SelectIsa(cpu).value(), Isa::kAvx2);
}

TEST(SelectIsa, RefusesACpuWithoutAvx2NamingWhatItLacks) {
  const Result<Isa> isa = SelectIsa(CpuFeatures{.avx2 = false, .fma = true, .f16c = false});
  ASSERT_FALSE(isa.ok());
  EXPECT_EQ(isa.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(isa.status().message().find("lacks AVX2, F16C;"), std::string::npos)
      << isa.status().message();
}

TEST(SelectIsa, RefusesAWantedSetNamingWhatTheCpuLacks) {
  const Result<Isa> isa = SelectIsa(kV4, Isa::kAvx512Bf16);
  ASSERT_FALSE(isa.ok());
  EXPECT_EQ(isa.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(isa.status().message().find("lacks AVX512_BF16"), std::string::npos)
      << isa.status().message();
}

TEST(DetectCpu, NeverClaimsWideRegistersWithoutAvx2) {
  const CpuFeatures cpu = DetectCpu();
  EXPECT_TRUE(cpu.avx2 || !(cpu.avx512f || cpu.f16c || cpu.avx512bf16));
}

}  // namespace
}  // namespace janus::kernels
