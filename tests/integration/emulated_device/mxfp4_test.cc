// On the emulated device, too, experts in mxfp4 give the bits of the same numbers in bfloat16: from
// the checkpoint through the copy to the device and the fast form of its kernels.

#include <gtest/gtest.h>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/mxfp4_bits.h"

namespace janus::dataplane {
namespace {

class EmulatedMxfp4Test : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedMxfp4Test, BitsAreThoseOfTheNumbersWrittenOut) {
  ExpectSameBits(Mxfp4Golden(GetParam(), Mxfp4Layout::kCompressedTensors), OnDevice(), 4);
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedMxfp4Test, testing::ValuesIn(kGoldenFamilies),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace janus::dataplane
