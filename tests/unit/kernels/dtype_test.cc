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

// OCP Microscaling 1.0, table 5.
constexpr float kE2M1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                             -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// Every number under every scale, which bfloat16 holds as far as scales are taken.
TEST(DType, Mxfp4WeightsAreTheirNumberTimesAPowerOfTwoAndOnesOfBFloat16) {
  for (int scale = 0; scale < 256; ++scale) {
    const auto eight = static_cast<uint8_t>(scale);
    if (scale == 255) {
      EXPECT_TRUE(std::isnan(FromE8M0(eight)));
      continue;
    }
    EXPECT_EQ(FromE8M0(eight), std::ldexp(1.0f, scale - 127));
    for (int code = 0; code < 16; ++code) {
      // Its neighbours in the byte and the row are others.
      const uint8_t packed[32] = {static_cast<uint8_t>(code | (15 - code) << 4),
                                  static_cast<uint8_t>(code << 4 | ((code + 7) % 16))};
      const uint8_t scales[2] = {eight, static_cast<uint8_t>(scale / 2)};
      const double wanted = std::ldexp(static_cast<double>(kE2M1[code]), scale - 127);
      const float low = Mxfp4Weight(packed, scales, 0);
      const float high = Mxfp4Weight(packed, scales, 3);
      EXPECT_EQ(low, static_cast<float>(wanted)) << code << ' ' << scale;
      EXPECT_EQ(high, low);
      EXPECT_EQ(std::signbit(low), code >= 8);
      EXPECT_EQ(FromBFloat16(ToBFloat16(low)) == wanted && std::isfinite(wanted),
                scale <= kMaxMxScale ||
                    (code % 8 != 7 && !(scale == 254 && code % 8 > 5) && std::isfinite(low)))
          << code << ' ' << scale;
    }
  }
  uint8_t packed[64] = {};
  packed[17] = 0x20;
  const uint8_t scales[4] = {1, 129, 2, 3};
  EXPECT_EQ(Mxfp4Weight(packed, scales, 35), 4.0f);
}

TEST(DType, Float4RoundTripsEveryPatternAndRoundsToNearestTiesToEven) {
  for (uint8_t code = 0; code < 16; ++code) {
    EXPECT_EQ(FromFloat4E2M1(code), kE2M1[code]);
    EXPECT_EQ(std::signbit(FromFloat4E2M1(code)), code >= 8);
    EXPECT_EQ(ToFloat4E2M1(kE2M1[code]), code);
  }
  for (uint8_t code = 0; code < 7; ++code) {
    const float middle = (kE2M1[code] + kE2M1[code + 1]) / 2.0f;
    EXPECT_EQ(ToFloat4E2M1(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(ToFloat4E2M1(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(ToFloat4E2M1(-std::nextafter(middle, 7.0f)), code + 9);
  }
  EXPECT_EQ(ToFloat4E2M1(INFINITY), 7);
  EXPECT_EQ(ToFloat4E2M1(-1e30f), 15);
}

TEST(DType, BytesOfCountsBits) {
  EXPECT_EQ(BytesOf(DType::kFloat32, 6), 24);
  EXPECT_EQ(BytesOf(DType::kBFloat16, 6), 12);
  EXPECT_EQ(BytesOf(DType::kFloat16, 6), 12);
  EXPECT_EQ(BytesOf(DType::kFloat8E4M3, 6), 6);
  EXPECT_EQ(BytesOf(DType::kMxfp4, 6), 3);
  EXPECT_EQ(SizeOf(DType::kMxfp4), 0);
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
