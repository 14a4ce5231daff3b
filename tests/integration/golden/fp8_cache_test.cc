// The cost of an fp8 cache: how far the logits of published checkpoints move.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/golden.h"

namespace janus::dataplane {
namespace {

// Relative to the range of the logits, over all positions. fp8 moves a number by up to 1/16 of it,
// which partly averages out over the numbers of a score and the keys of a sum. The families move by
// 0.03 to 0.04; qwen3_moe moves by 0.12, because its normed heads make large scores. Their weights
// are random.
constexpr float kMoved = 0.2f;

class Fp8CacheTest : public testing::TestWithParam<const char*> {};

TEST_P(Fp8CacheTest, MovesLogitsLittle) {
  const Golden golden = ReadGolden(GetParam());
  const GoldenCase& c = golden.cases[0];
  const auto run = [&](bool fp8_cache) {
    CaseService service{.kernels = BestCpu()};
    service.kernels.fp8_cache = fp8_cache;
    return *RunCase(golden, c, service, 1);
  };
  const CaseRun plain = run(false);
  const CaseRun scaled = run(true);
  float difference = 0.0f;
  for (const auto& [position, logits] : plain.logits) {
    const std::vector<float>& ours = scaled.logits.at(position);
    ASSERT_EQ(ours.size(), logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_TRUE(std::isfinite(ours[i]));
      difference = std::max(difference, std::abs(ours[i] - logits[i]));
    }
  }
  EXPECT_LE(difference, kMoved * c.range);
  // More than rounding in fp32 would move: attention used the fp8 cache.
  EXPECT_GT(difference, golden.tolerance * c.range);
  RecordProperty("difference_of_range", std::to_string(difference / c.range));
  std::cout << difference / c.range << " of the range\n";
}

INSTANTIATE_TEST_SUITE_P(All, Fp8CacheTest, testing::ValuesIn(kGoldenFamilies),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace janus::dataplane
