#include "operator/manager/gpu_meter.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

const ObjectKey kChat{"prod", "chat"};

MonotonicTime At(int second) {
  return MonotonicTime(std::chrono::seconds(1000 + second));
}

TEST(GpuMeter, AddsUpHowManyThereWereForHowLong) {
  GpuMeter meter;
  EXPECT_FALSE(meter.SecondsOf(kChat, "uid", At(0)));
  meter.Set(kChat, "uid", 2, At(0));
  EXPECT_EQ(meter.SecondsOf(kChat, "uid", At(0)), 0);
  EXPECT_EQ(meter.SecondsOf(kChat, "uid", At(10)), 20);
  meter.Set(kChat, "uid", 2, At(10));  // a pass without changes
  meter.Set(kChat, "uid", 5, At(20));
  EXPECT_EQ(meter.SecondsOf(kChat, "uid", At(22)), 50);
  meter.Set(kChat, "uid", 0, At(22));
  EXPECT_EQ(meter.SecondsOf(kChat, "uid", At(99)), 50) << "what was used stays";
}

TEST(GpuMeter, OfAServiceThatHasGoneNothingIsKept) {
  GpuMeter meter;
  meter.Set(kChat, "uid", 2, At(0));
  meter.Set({"prod", "other"}, "another", 0, At(0));
  meter.Set(kChat, "uid-2", 1, At(10));
  EXPECT_EQ(meter.SecondsOf(kChat, "uid-2", At(20)), 10) << "one of the same name begins anew";
  EXPECT_FALSE(meter.SecondsOf(kChat, "uid", At(20)));
  meter.Set(kChat, "", std::nullopt, At(20));
  EXPECT_FALSE(meter.SecondsOf(kChat, "uid-2", At(20)));
  EXPECT_EQ(meter.SecondsOf({"prod", "other"}, "another", At(20)), 0);
  meter.Clear();
  EXPECT_FALSE(meter.SecondsOf({"prod", "other"}, "another", At(20)));
}

}  // namespace
}  // namespace janus::control
