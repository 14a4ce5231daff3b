#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/isa.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

struct Back {
  kernels::Device device;
  kernels::Isa isa;
  const char* name;
};

std::vector<Back> Backs(const GoldenCase& c) {
  std::vector<Back> backs;
  // A sanitizer makes the scalar kernels take a minute for a long prompt.
  if (!kSanitized || c.prompt.size() < 100)
    backs.push_back({kernels::Device::kReference, kernels::Isa::kAvx2, "reference"});
  for (const auto& [isa, name] :
       {std::pair{kernels::Isa::kAvx2, "avx2"}, std::pair{kernels::Isa::kAvx512, "avx512"},
        std::pair{kernels::Isa::kAvx512Bf16, "avx512bf16"}}) {
    if (kernels::SelectIsa(kernels::DetectCpu(), isa).ok())
      backs.push_back({kernels::Device::kCpu, isa, name});
  }
  return backs;
}

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, LogitsAndTokensAreTransformers) {
  const GoldenCase& c = GetParam();
  const Golden golden = ReadGolden(c.family);
  // No near-tie that rounding alone could decide.
  for (const float margin : c.greedy_margins) ASSERT_GE(margin, golden.least_margin * c.range);
  const int tokens = std::max(1, static_cast<int>(c.greedy_ids.size()));
  for (const Back& back : Backs(c)) {
    SCOPED_TRACE(back.name);
    const Result<CaseRun> ran = RunCase(golden, c, {.kernels = {back.device, back.isa}}, tokens);
    ASSERT_TRUE(ran.ok()) << ran.status().ToString();
    const CaseRun& run = *ran;
    const float difference = LargestDifference(run, c);
    EXPECT_LE(difference, golden.tolerance * c.range);
    if (!c.greedy_ids.empty()) {
      EXPECT_EQ(run.tokens, c.greedy_ids);
      const size_t width = c.experts.size() / (c.prompt.size() + c.greedy_ids.size());
      // The last token is not computed.
      EXPECT_EQ(run.experts,
                std::vector<uint16_t>(c.experts.begin(),
                                      c.experts.end() - static_cast<ptrdiff_t>(width)));
    }
    RecordProperty(std::string(back.name) + "_difference_of_range",
                   std::to_string(difference / c.range));
  }
}

std::vector<GoldenCase> AllCases() {
  std::vector<GoldenCase> all;
  for (const char* family : kGoldenFamilies) {
    for (GoldenCase& c : ReadGolden(family).cases) all.push_back(std::move(c));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(AllCases()), [](const auto& info) {
  return info.param.family + "_" + info.param.name;
});

}  // namespace
}  // namespace janus::dataplane
