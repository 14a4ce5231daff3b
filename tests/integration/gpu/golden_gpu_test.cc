// Instances on the GPU give the reference implementation's logits and tokens, even for long
// prompts, and the same bits for all topologies and schedules.

#include "kernels/device/cuda_context.h"
#include "tests/support/golden.h"
#include "tests/support/gpu_cases/run.h"

namespace janus::dataplane {
namespace {

KernelChoice OnGpu() {
  KernelChoice choice;
  choice.device = kernels::Device::kCuda;
  choice.make_context = [] {
    auto context = kernels::MakeCudaContext();
    JANUS_CHECK(context.ok(), context.status().ToString());
    return *std::move(context);
  };
  return choice;
}

class GpuGoldenTest : public testing::TestWithParam<GoldenCase> {
 protected:
  GpuGoldenTest() : golden_(ReadGolden(GetParam().family)) {}
  Result<CaseRun> Run(const CaseService& service) const {
    const int tokens = std::max(1, static_cast<int>(GetParam().greedy_ids.size()));
    return RunCase(golden_, GetParam(), service, tokens);
  }

  const Golden golden_;
};

TEST_P(GpuGoldenTest, LogitsAndTokensAreTransformersAndTheSameOverTopologies) {
  const GoldenCase& c = GetParam();
  const Result<CaseRun> one = Run({.kernels = OnGpu(), .m = 1, .n = 1});
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  const float difference = LargestDifference(*one, c);
  EXPECT_LE(difference, golden_.tolerance * c.range);
  if (!c.greedy_ids.empty()) {
    EXPECT_EQ(one->tokens, c.greedy_ids);
  }
  const Result<CaseRun> more = Run({.kernels = OnGpu(), .m = 2, .n = 3});
  ASSERT_TRUE(more.ok()) << more.status().ToString();
  EXPECT_EQ(more->tokens, one->tokens);
  EXPECT_EQ(more->logits, one->logits);
}

std::vector<GoldenCase> Cases() {
  std::vector<GoldenCase> all;
  for (const char* family : kGoldenFamilies) {
    for (GoldenCase& c : ReadGolden(family).cases) all.push_back(std::move(c));
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, GpuGoldenTest, testing::ValuesIn(Cases()), [](const auto& info) {
  return info.param.family + "_" + info.param.name;
});

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  return janus::kernels::RunGpuCases(argc, argv, [](bool) { return cudaSuccess; });
}
