// On the emulated device, too, experts in mxfp4 give the bits of the same numbers in bfloat16: from
// the checkpoint through the copy to the device and the forms of its kernels that the family has.

#include <gtest/gtest.h>

#include <tuple>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/mxfp4_bits.h"

namespace janus::dataplane {
namespace {

class EmulatedMxfp4Test : public testing::TestWithParam<std::tuple<const char*, Mxfp4Layout>> {};

TEST_P(EmulatedMxfp4Test, BitsAreThoseOfTheNumbersWrittenOut) {
  ExpectSameBits(Mxfp4Golden(std::get<0>(GetParam()), std::get<1>(GetParam())), OnDevice(), 4);
}

INSTANTIATE_TEST_SUITE_P(Separate, EmulatedMxfp4Test,
                         testing::Combine(testing::ValuesIn(kSeparateExperts),
                                          testing::Values(Mxfp4Layout::kCompressedTensors)),
                         [](const auto& info) { return std::string(std::get<0>(info.param)); });
INSTANTIATE_TEST_SUITE_P(Together, EmulatedMxfp4Test,
                         testing::Values(std::tuple("gpt_oss", Mxfp4Layout::kGptOss)),
                         [](const auto& info) { return std::string(std::get<0>(info.param)); });

}  // namespace
}  // namespace janus::dataplane
