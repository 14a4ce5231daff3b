// Published checkpoints with routed experts in mxfp4 give the bits of the same numbers written out
// in bfloat16: the whole way from quantization_config and packed tensors on disk to logits and
// tokens.

#include <gtest/gtest.h>

#include "kernels/cpu/isa.h"
#include "tests/support/mxfp4_bits.h"

namespace janus::dataplane {
namespace {

class Mxfp4GoldenTest : public testing::TestWithParam<std::tuple<const char*, Mxfp4Layout>> {};

TEST_P(Mxfp4GoldenTest, BitsAreThoseOfTheNumbersWrittenOut) {
  const Mxfp4Golden golden(std::get<0>(GetParam()), std::get<1>(GetParam()));
  EXPECT_EQ(ExpertType(golden.packed_model), DType::kMxfp4);
  for (const KernelChoice& kernels : {KernelChoice(), BestCpu()}) {
    ExpectSameBits(golden, kernels, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Together, Mxfp4GoldenTest,
                         testing::Values(std::tuple("gpt_oss", Mxfp4Layout::kGptOss)),
                         [](const auto& info) { return std::string(std::get<0>(info.param)); });
INSTANTIATE_TEST_SUITE_P(Separate, Mxfp4GoldenTest,
                         testing::Combine(testing::ValuesIn(kSeparateExperts),
                                          testing::Values(Mxfp4Layout::kCompressedTensors,
                                                          Mxfp4Layout::kQuark)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Mxfp4Layout::kQuark ? "_quark"
                                                                                  : "_compressed");
                         });

}  // namespace
}  // namespace janus::dataplane
