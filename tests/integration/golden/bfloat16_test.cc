// In BFloat16, logits stay near the reference's in float32: as near as 8 bits of each number allow.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/model/config.h"
#include "tests/support/golden.h"

namespace janus::dataplane {
namespace {

// Relative to the range of the logits, of the median over all of them: a gate's near-tie may send
// single rows to another expert.
constexpr float kMedian = 0.01f;

class Bfloat16Test : public testing::TestWithParam<const char*> {};

TEST_P(Bfloat16Test, LogitsAreNearTransformers) {
  const Golden golden = ReadGolden(GetParam());
  const GoldenCase& c = golden.Case("prompt17");
  for (const KernelChoice& kernels : {KernelChoice(), BestCpu()}) {
    ModelDescription model = *ParseModelConfig(ReadText(golden.folder + "/" + c.config));
    model.dtype = DType::kBFloat16;
    const auto run = RunCase(golden.folder, c, model, {.kernels = kernels}, 1);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    std::vector<float> moved;
    for (const auto& [position, logits] : run->logits) {
      const int row = position - c.first_position;
      if (row < 0) continue;
      for (size_t i = 0; i < logits.size(); ++i) {
        const float theirs = c.logits[static_cast<size_t>(row * c.vocab) + i];
        moved.push_back(std::abs(logits[i] - theirs) / c.range);
      }
    }
    ASSERT_FALSE(moved.empty());
    std::nth_element(moved.begin(), moved.begin() + static_cast<int64_t>(moved.size() / 2),
                     moved.end());
    const float median = moved[moved.size() / 2];
    EXPECT_LE(median, kMedian);
    EXPECT_GT(median, golden.tolerance / 10) << "was computed in float32";
    std::cout << median << " of the range\n";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bfloat16Test, testing::ValuesIn(kGoldenFamilies),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace janus::dataplane
