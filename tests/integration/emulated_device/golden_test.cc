// Whole instances on the emulated device give the reference implementation's logits and tokens.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/golden.h"

namespace janus::dataplane {
namespace {

class EmulatedGoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(EmulatedGoldenTest, LogitsAndTokensAreTransformers) {
  const GoldenCase& c = GetParam();
  const Golden golden = ReadGolden(c.family);
  const int tokens = std::max(1, static_cast<int>(c.greedy_ids.size()));
  const Result<CaseRun> ran = RunCase(golden, c, {.kernels = OnDevice(), .m = 1, .n = 2}, tokens);
  ASSERT_TRUE(ran.ok()) << ran.status().ToString();
  const float difference = LargestDifference(*ran, c);
  EXPECT_LE(difference, golden.tolerance * c.range);
  if (!c.greedy_ids.empty()) {
    EXPECT_EQ(ran->tokens, c.greedy_ids);
  }
  RecordProperty("difference_of_range", std::to_string(difference / c.range));
}

// The emulation takes minutes for a long prompt; the bits tests cover its chunks and splits.
std::vector<GoldenCase> ShortCases() {
  std::vector<GoldenCase> all;
  for (const char* family : kGoldenFamilies) {
    for (GoldenCase& c : ReadGolden(family).cases) {
      if (c.prompt.size() < 100) all.push_back(std::move(c));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Short, EmulatedGoldenTest, testing::ValuesIn(ShortCases()),
                         [](const auto& info) {
                           return info.param.family + "_" + info.param.name;
                         });

}  // namespace
}  // namespace janus::dataplane
