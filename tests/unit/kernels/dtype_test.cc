#include "common/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace janus {
namespace {

TEST(DType, Float16RoundTripsEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = FromFloat16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(value))));
    } else {
      EXPECT_EQ(ToFloat16(value), half) << bits;
    }
  }
}

TEST(DType, Float16RoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    const float low = FromFloat16(static_cast<uint16_t>(bits));
    const float high = FromFloat16(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2.0f;
    EXPECT_EQ(ToFloat16(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(ToFloat16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(ToFloat16(std::nextafter(middle, INFINITY)), bits + 1);
  }
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bffu);
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00u);
  EXPECT_EQ(ToFloat16(-1e30f), 0xfc00u);
}

TEST(DType, Float8RoundTripsEveryPattern) {
  for (uint32_t bits = 0; bits < 0x100u; ++bits) {
    const auto eight = static_cast<uint8_t>(bits);
    const float value = FromFloat8E4M3(eight);
    if ((bits & 0x7fu) == 0x7fu) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(FromFloat8E4M3(ToFloat8E4M3(value))));
    } else {
      EXPECT_EQ(ToFloat8E4M3(value), eight) << bits;
      EXPECT_EQ(std::signbit(value), bits >= 0x80u);
    }
  }
  // OCP 8-bit floating point, table 2.
  EXPECT_EQ(FromFloat8E4M3(0x7e), 448.0f);
  EXPECT_EQ(FromFloat8E4M3(0x08), 0x1p-6f);
  EXPECT_EQ(FromFloat8E4M3(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(FromFloat8E4M3(0x01), 0x1p-9f);
}

TEST(DType, Float8RoundsToNearestTiesToEvenAndSaturates) {
  for (uint32_t bits = 0; bits < 0x7eu; ++bits) {
    const float low = FromFloat8E4M3(static_cast<uint8_t>(bits));
    const float high = FromFloat8E4M3(static_cast<uint8_t>(bits + 1));
    const float middle = (low + high) / 2.0f;
    EXPECT_EQ(ToFloat8E4M3(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(ToFloat8E4M3(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(ToFloat8E4M3(std::nextafter(middle, INFINITY)), bits + 1);
    EXPECT_EQ(ToFloat8E4M3(-high), (bits + 1) | 0x80u);
  }
  for (const float large : {448.0f, 449.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(ToFloat8E4M3(large), 0x7eu);
    EXPECT_EQ(ToFloat8E4M3(-large), 0xfeu);
  }
}

TEST(DType, BFloat16RoundTripsAndRoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7f7fu; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const uint32_t middle = (bits << 16) | 0x8000u;
    EXPECT_EQ(ToBFloat16(FromBFloat16(low)), low);
    EXPECT_EQ(ToBFloat16(std::bit_cast<float>(middle)), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(ToBFloat16(std::bit_cast<float>(middle - 1)), bits);
    EXPECT_EQ(ToBFloat16(std::bit_cast<float>(middle + 1)), bits + 1);
  }
  EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(ToBFloat16(INFINITY), 0x7f80u);
}

}  // namespace
}  // namespace janus
