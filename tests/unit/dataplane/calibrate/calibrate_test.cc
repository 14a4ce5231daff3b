#include "dataplane/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/contains.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/random.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

std::vector<std::vector<int32_t>> Prompts(const ModelDescription& model) {
  Random random(TestSeed());
  std::vector<std::vector<int32_t>> prompts(3);
  for (auto& prompt : prompts) {
    // Longer than what is computed at once.
    for (int i = random.Between(70, 100); i > 0; --i) {
      prompt.push_back(random.Between(0, model.vocab - 1));
    }
  }
  return prompts;
}

class CalibrateTest : public testing::TestWithParam<const char*> {
 protected:
  Result<std::vector<ContributionRange>> Measure() {
    kernels::Team team(2);
    const kernels::Stream stream{BestCpu().device, &team, BestCpu().isa, nullptr};
    return MeasureContributions(held_.model, held_.attention, held_.experts, prompts_, stream);
  }

  // Serves the prompts by the sums. Returns how many elements were clamped.
  uint64_t Clamped(const FixedPointSums& sums) {
    LoopbackCluster::Options options = OptionsAlone(held_, BestCpu());
    options.sums = sums;
    options.attention.max_batch = 8;
    options.attention.kv_bytes = int64_t{8} << 20;
    const std::vector<ExpertWeights> shares = held_.Shares(options.topology.placement);
    LoopbackCluster cluster(options, held_.model, held_.attention, PointersTo(shares));
    uint64_t id = 0;
    for (const std::vector<int32_t>& prompt : prompts_) {
      Request request;
      request.key = {1, ++id, 1};
      request.prompt = prompt;
      EXPECT_TRUE(cluster.attention(0).Submit(request).ok());
      EXPECT_TRUE(cluster.Await(request.key).error.ok());
    }
    EXPECT_TRUE(cluster.Stop().ok());
    return cluster.experts(0).statistics().clamped_elements;
  }

  const HeldModel held_ = *HeldByName(GetParam(), DType::kBFloat16, 5);
  const std::vector<std::vector<int32_t>> prompts_ = Prompts(held_.model);
};

TEST_P(CalibrateTest, TheExponentsHoldWhatWasMeasured) {
  const auto ranges = Measure();
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  ASSERT_EQ(ranges->size(), static_cast<size_t>(held_.model.moe_layers()));
  for (const ContributionRange& range : *ranges) {
    EXPECT_GT(range.root_mean_square, 0.0);
    EXPECT_GT(range.largest, range.root_mean_square);
  }
  for (const int bits : {32, 24}) {
    FixedPointSums sums = *ChooseExponents(*ranges, bits, held_.model.moe.top_k);
    EXPECT_EQ(Clamped(sums), 0u) << bits;
    // Units that are so much smaller that the largest no longer fits.
    const double units = FixedLimit(bits, held_.model.moe.top_k);
    for (size_t layer = 0; layer < ranges->size(); ++layer) {
      sums.exponents[layer] =
          static_cast<int8_t>(std::floor(std::log2((*ranges)[layer].largest / units)) - 1);
    }
    EXPECT_GT(Clamped(sums), 0u) << bits;
  }
}

TEST_P(CalibrateTest, NamesTheLayerWhoseRange24BitsDoNotHold) {
  std::vector<ContributionRange> ranges = *Measure();
  ranges.back().largest = ranges.back().root_mean_square * 0x1p20;
  const auto refused = ChooseExponents(ranges, 24, held_.model.moe.top_k);
  EXPECT_TRUE(Contains(refused.status().message(),
                       "MoE layer " + std::to_string(ranges.size() - 1) + ": the largest"))
      << refused.status().ToString();
  EXPECT_TRUE(ChooseExponents(ranges, 32, held_.model.moe.top_k).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, CalibrateTest, testing::Values("small", "small_latent"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Calibrate, WithoutPromptsNothingIsKnown) {
  const HeldModel held = *HeldByName("small", DType::kBFloat16, 5);
  kernels::Team team(1);
  const kernels::Stream stream{BestCpu().device, &team, BestCpu().isa, nullptr};
  EXPECT_EQ(
      MeasureContributions(held.model, held.attention, held.experts, {}, stream).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(Calibrate, PrintsWhatASpecTakes) {
  EXPECT_EQ(ToYaml({24, {-17, 3}}, "two prompts"),
            "# two prompts\nexchange:\n  sum: FixedPoint\n  sumBits: 24\n"
            "  sumExponents: [-17, 3]\n");
}

}  // namespace
}  // namespace janus::dataplane
