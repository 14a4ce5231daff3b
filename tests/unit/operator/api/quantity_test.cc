#include "operator/api/quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace janus::control {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct Good {
  const char* text;
  int64_t value;
  int64_t milli;
};
void PrintTo(const Good& good, std::ostream* out) {
  *out << good.text;
}

class QuantityReads : public testing::TestWithParam<Good> {};

TEST_P(QuantityReads, LikeKubernetes) {
  const Result<Quantity> quantity = ParseQuantity(GetParam().text);
  ASSERT_TRUE(quantity.ok()) << quantity.status().ToString();
  EXPECT_EQ(quantity->value, GetParam().value);
  EXPECT_EQ(quantity->milli, GetParam().milli);
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantityReads,
    testing::Values(Good{"0", 0, 0}, Good{"12", 12, 12'000},
                    Good{"4Gi", 4LL << 30, (4LL << 30) * 1000},
                    Good{"1.5Gi", 3LL << 29, (3LL << 29) * 1000}, Good{"500m", 1, 500},
                    Good{"1500m", 2, 1500}, Good{"2G", 2'000'000'000, 2'000'000'000'000},
                    Good{"1e3", 1000, 1'000'000}, Good{"5E", 5'000'000'000'000'000'000, kMost},
                    Good{"9223372036854775807", kMost, kMost}, Good{"9Ei", kMost, kMost},
                    Good{"9999999999999999999", kMost, kMost},
                    Good{"9999999999999999999Ei", kMost, kMost}, Good{"1n", 1, 1},
                    Good{"0.000000000000000001e-18", 1, 1}, Good{"25E-2", 1, 250},
                    Good{"+3k", 3000, 3'000'000}));

TEST(Quantity, RefusesWhatIsNone) {
  for (const char* text : {"", "Gi", "4GB", "4 Gi", "-1Gi", "-0", "1e99", "0x10", "1.2.3", "1ki",
                           "99999999999999999999", "nan", "1e", "e3"}) {
    EXPECT_FALSE(ParseQuantity(text).ok()) << text;
  }
}

TEST(Quantity, FormatsBytesForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(93'400'000'000), "93 GB");
  EXPECT_EQ(FormatBytes(1'500'000'000), "1.5 GB");
  EXPECT_EQ(FormatBytes(999'600'000), "1.0 GB");
  EXPECT_EQ(FormatBytes(12'000), "12 kB");
}

}  // namespace
}  // namespace janus::control
