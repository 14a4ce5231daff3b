// Published checkpoints written in fp8 give the same results as their numbers written out: the
// whole way from quantization_config and scales on disk to logits and tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/model/config.h"
#include "kernels/cpu/isa.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/golden.h"

namespace janus::dataplane {
namespace {

// What publishers quantize: projections of attention and FFNs; not gates, norms, embeddings.
bool IsProjection(const std::string& name) {
  return name.ends_with(".weight") &&
         (name.find("_proj") != std::string::npos || name.find(".experts.") != std::string::npos);
}

class Fp8GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(Fp8GoldenTest, LogitsAreThoseOfTheNumbersWrittenOut) {
  const Golden golden = ReadGolden(GetParam());
  const GoldenCase& plain = golden.cases[0];
  const FileTensors eight = InFp8(ReadInFloat32(golden.folder), IsProjection);
  const FileTensors out = OutOfFp8(eight);
  ASSERT_GT(eight.size(), out.size());
  const TempFolder quantized, written_out;
  quantized.Write("model.safetensors", SafetensorsBytes(eight));
  written_out.Write("model.safetensors", SafetensorsBytes(out));
  auto config = nlohmann::json::parse(ReadText(golden.folder + "/" + plain.config));
  config.erase("torch_dtype");
  config["dtype"] = "float32";
  const ModelDescription model = *ParseModelConfig(config.dump());
  config["quantization_config"] = {{"activation_scheme", "dynamic"},
                                   {"fmt", "e4m3"},
                                   {"quant_method", "fp8"},
                                   {"weight_block_size", {128, 128}}};
  const ModelDescription in_fp8 = *ParseModelConfig(config.dump());
  ASSERT_TRUE(in_fp8.has_fp8_weights);
  const int tokens = std::max(1, static_cast<int>(plain.greedy_ids.size()));
  for (const KernelChoice& kernels : {KernelChoice(), BestCpu()}) {
    const CaseService service = {.kernels = kernels, .m = 1, .n = 2};
    const auto want = RunCase(written_out.path(), plain, model, service, tokens);
    ASSERT_TRUE(want.ok()) << want.status().ToString();
    const auto have = RunCase(quantized.path(), plain, in_fp8, service, tokens);
    ASSERT_TRUE(have.ok()) << have.status().ToString();
    EXPECT_EQ(have->tokens, want->tokens);
    float difference = 0.0f;
    for (const auto& [position, logits] : want->logits) {
      difference = std::max(difference, LargestDifference(have->logits.at(position), logits));
    }
    EXPECT_LE(difference, golden.tolerance * plain.range);
    EXPECT_GT(LargestDifference(*have, plain), 10 * difference) << "fp8 is not what was published";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fp8GoldenTest, testing::ValuesIn(kSeparateExperts),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace janus::dataplane
