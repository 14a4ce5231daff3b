#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/model/config.h"
#include "kernels/cpu/isa.h"
#include "tests/support/golden.h"

namespace janus::dataplane {
namespace {

// What a run of one case gives: logits of the prompt's last positions, and the greedy tokens.
struct CaseRun {
  std::map<int, std::vector<float>> logits;  // by position
  std::vector<int32_t> tokens;
};

CaseRun RunCase(const Golden& golden, const GoldenCase& c, const ModelDescription& model,
                kernels::Device device, kernels::Isa isa, int tokens) {
  LoopbackCluster::Options options;
  options.topology = MakeTopology(1, {model.moe.experts}, model.layers, model.moe.experts);
  options.device = device;
  options.isa = isa;
  options.attention.kv_bytes = int64_t{8} << 20;
  options.attention.max_batch = 8;
  CaseRun run;
  const int last = c.first_position + static_cast<int>(c.logits.size()) / c.vocab;
  options.attention.logits_tap = [&](const RequestKey&, int position,
                                     std::span<const float> logits) {
    if (position >= c.first_position && position < last)
      run.logits[position].assign(logits.begin(), logits.end());
  };
  const Result<LoadedModel> loaded = LoadForTopology(golden.folder, model, options.topology);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  if (!loaded.ok()) return run;
  LoopbackCluster cluster(options, model, loaded->attention.weights, loaded->expert_pointers());
  Request request;
  request.key = {1, 1, 1};
  request.prompt = c.prompt;
  request.max_tokens = tokens;
  EXPECT_TRUE(cluster.attention(0).Submit(request).ok());
  run.tokens = cluster.Await(request.key).tokens;
  return run;
}

float LargestDifference(const CaseRun& run, const GoldenCase& c) {
  float largest = 0.0f;
  for (int p = 0; p * c.vocab < static_cast<int>(c.logits.size()); ++p) {
    const auto at = run.logits.find(c.first_position + p);
    if (at == run.logits.end()) return INFINITY;
    for (int v = 0; v < c.vocab; ++v) {
      const float difference = std::fabs(at->second[static_cast<size_t>(v)] -
                                         c.logits[static_cast<size_t>(p * c.vocab + v)]);
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

struct Back {
  kernels::Device device;
  kernels::Isa isa;
  const char* name;
};

std::vector<Back> Backs() {
  std::vector<Back> backs = {{kernels::Device::kReference, kernels::Isa::kAvx2, "reference"}};
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
  const Golden golden = ReadGolden("mixtral");
  const GoldenCase& c = GetParam();
  // No near-tie that rounding alone could decide.
  for (const float margin : c.greedy_margins) ASSERT_GE(margin, golden.least_margin * c.range);
  const ModelDescription model = *ParseModelConfig(ReadText(golden.folder + "/" + c.config));
  const int tokens = std::max(1, static_cast<int>(c.greedy_ids.size()));
  for (const Back& back : Backs()) {
    SCOPED_TRACE(back.name);
    const CaseRun run = RunCase(golden, c, model, back.device, back.isa, tokens);
    const float difference = LargestDifference(run, c);
    EXPECT_LE(difference, golden.tolerance * c.range);
    if (!c.greedy_ids.empty()) {
      EXPECT_EQ(run.tokens, c.greedy_ids);
    }
    RecordProperty(std::string(back.name) + "_difference_of_range",
                   std::to_string(difference / c.range));
  }
}

INSTANTIATE_TEST_SUITE_P(Mixtral, GoldenTest, testing::ValuesIn(ReadGolden("mixtral").cases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
