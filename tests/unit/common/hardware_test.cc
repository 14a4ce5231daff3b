#include "common/hardware.h"

#include <gtest/gtest.h>

#include <limits>

namespace janus {
namespace {

TEST(Hardware, PresetsAreValidAndFoundInAnyCase) {
  for (const HardwareProfile& preset : HardwarePresets()) {
    EXPECT_TRUE(Validate(preset).ok()) << Validate(preset).ToString();
  }
  ASSERT_TRUE(FindHardware("h20").ok());
  EXPECT_EQ(FindHardware("h20")->name, "H20");
}

TEST(Hardware, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(FindHardware("V100").status().message(),
            "no hardware 'V100'; known: L20, H800, A800, H20, L40S, A100, H100, H200");
}

// The last columns of MegaScale-Infer's Table 3.
TEST(Hardware, PerformancePerCostIsThatOfThePaper) {
  const HardwareProfile h20 = *FindHardware("H20");
  EXPECT_NEAR(h20.memory_bytes / 1e9 / h20.price, 51.9, 0.05);
  EXPECT_NEAR(h20.memory_bytes_per_second / 1e9 / h20.price, 2214.1, 0.05);
  const HardwareProfile l40s = *FindHardware("L40S");
  EXPECT_NEAR(l40s.bf16_operations_per_second / 1e12 / l40s.price, 335.2, 0.05);
}

TEST(Hardware, BrokenFiguresAreNamed) {
  HardwareProfile profile = *FindHardware("H100");
  profile.price = 0;
  EXPECT_EQ(Validate(profile).message(),
            "HardwareProfile H100: price is 0.000000; want a positive number");
  profile.price = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Validate(profile).ok());
  profile = *FindHardware("H100");
  profile.memory_bytes = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(Validate(profile).ok());
}

TEST(Hardware, CarryingOverScalesWhatTheDataSheetSaysAndKeepsTheRest) {
  const HardwareProfile from = *FindHardware("H100");
  HardwareProfile to = from;
  to.memory_bytes_per_second *= 2;
  to.bf16_operations_per_second *= 3;
  const ExpertCost cost = {20e-6, 2e12, 1e15, 1e-6, 1.5};
  const ExpertCost carried = CarryOver(cost, from, to, 2);
  EXPECT_DOUBLE_EQ(carried.bytes_per_second, 4e12);
  EXPECT_DOUBLE_EQ(carried.operations_per_second, 3e15);
  EXPECT_EQ(carried.fixed_seconds, cost.fixed_seconds);
  EXPECT_DOUBLE_EQ(CarryOver(cost, from, to, 1).operations_per_second, 1e15) << "fp8 is as before";
}

TEST(Hardware, WithoutFp8ArithmeticFp8WeightsComputeInBf16) {
  EXPECT_EQ(FindHardware("A100")->OperationsPerSecond(1), 312e12);
  EXPECT_EQ(FindHardware("H100")->OperationsPerSecond(1), 1979e12);
  EXPECT_EQ(FindHardware("H100")->OperationsPerSecond(2), 989e12);
  EXPECT_EQ(FindHardware("H100")->OperationsPerSecond(17.0 / 32.0), 989e12) << "so does mxfp4";
}

}  // namespace
}  // namespace janus
