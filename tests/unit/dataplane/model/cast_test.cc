#include "dataplane/model/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace janus::dataplane {
namespace {

template <class T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Cast, FindsNaNAndInfinityAnywhere) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const size_t at : {size_t{0}, size_t{13}, size_t{36}}) {
      std::vector<float> values(37, 1.0f);
      EXPECT_TRUE(AllFinite(BytesOf(values), DType::kFloat32));
      values[at] = bad;
      EXPECT_FALSE(AllFinite(BytesOf(values), DType::kFloat32));
      std::vector<uint16_t> bf16(37, ToBFloat16(1.0f)), fp16(37, ToFloat16(1.0f));
      EXPECT_TRUE(AllFinite(BytesOf(bf16), DType::kBFloat16));
      EXPECT_TRUE(AllFinite(BytesOf(fp16), DType::kFloat16));
      bf16[at] = ToBFloat16(bad);
      fp16[at] = ToFloat16(bad);
      EXPECT_FALSE(AllFinite(BytesOf(bf16), DType::kBFloat16));
      EXPECT_FALSE(AllFinite(BytesOf(fp16), DType::kFloat16));
    }
  }
}

TEST(Cast, TheLargestAndSmallestAreFinite) {
  const std::vector<float> values = {std::numeric_limits<float>::max(),
                                     std::numeric_limits<float>::denorm_min(), -0.0f, 0.0f};
  EXPECT_TRUE(AllFinite(BytesOf(values), DType::kFloat32));
}

TEST(Cast, RoundsToNearestEvenAndReadsUnaligned) {
  // bf16 keeps 8 bits of the significand: 1 + 2^-8 is a tie that goes to the even 1.
  const std::vector<float> values = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, -3.25f, 1e-30f};
  std::vector<char> unaligned(1 + values.size() * 4);
  std::memcpy(unaligned.data() + 1, values.data(), values.size() * 4);
  const std::span from(reinterpret_cast<const std::byte*>(unaligned.data() + 1), values.size() * 4);
  std::vector<uint16_t> to(values.size());
  ASSERT_TRUE(CastAndCheck(from, DType::kFloat32, reinterpret_cast<std::byte*>(to.data()),
                           DType::kBFloat16));
  EXPECT_EQ(FromBFloat16(to[0]), 1.0f);
  EXPECT_EQ(FromBFloat16(to[1]), 1.0f + 0x4p-8f);
  EXPECT_EQ(FromBFloat16(to[2]), -3.25f);
}

TEST(Cast, WidensExactlyBothWays) {
  for (const DType narrow : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<uint16_t> values;
    for (uint32_t bits = 0; bits < 0x10000; bits += 7) {
      const float value = narrow == DType::kBFloat16 ? FromBFloat16(static_cast<uint16_t>(bits))
                                                     : FromFloat16(static_cast<uint16_t>(bits));
      if (std::isfinite(value)) values.push_back(static_cast<uint16_t>(bits));
    }
    std::vector<float> wide(values.size());
    std::vector<uint16_t> back(values.size());
    ASSERT_TRUE(CastAndCheck(BytesOf(values), narrow, reinterpret_cast<std::byte*>(wide.data()),
                             DType::kFloat32));
    ASSERT_TRUE(CastAndCheck(BytesOf(wide), DType::kFloat32,
                             reinterpret_cast<std::byte*>(back.data()), narrow));
    EXPECT_EQ(values, back) << ToString(narrow);
  }
}

TEST(Cast, WhatOverflowsTheNarrowFormatIsNotFinite) {
  const std::vector<float> values = {1.0f, 70000.0f};
  std::vector<uint16_t> to(2);
  auto* out = reinterpret_cast<std::byte*>(to.data());
  EXPECT_FALSE(CastAndCheck(BytesOf(values), DType::kFloat32, out, DType::kFloat16));
  EXPECT_TRUE(CastAndCheck(BytesOf(values), DType::kFloat32, out, DType::kBFloat16));
  const std::vector<float> huge = {3.4e38f};
  EXPECT_FALSE(CastAndCheck(BytesOf(huge), DType::kFloat32, out, DType::kBFloat16));
}

}  // namespace
}  // namespace janus::dataplane
