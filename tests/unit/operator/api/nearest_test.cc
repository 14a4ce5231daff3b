#include "operator/api/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace janus::control {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", "abc"), 0);
  EXPECT_EQ(EditDistance("abc", "abd"), 1);
  EXPECT_EQ(EditDistance("abc", "acb"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("HostPath", "hostpath"), 0);
}

TEST(Nearest, FindsTheSlipOfTheHandAndNothingFarther) {
  static constexpr std::array<std::string_view, 3> kNames = {"replicas", "scaling", "resources"};
  EXPECT_EQ(Nearest("replica", kNames), "replicas");
  EXPECT_EQ(Nearest("relpicas", kNames), "replicas");
  EXPECT_EQ(Nearest("scalling", kNames), "scaling");
  EXPECT_EQ(Nearest("tolerations", kNames), "");
  EXPECT_EQ(Nearest("x", kNames), "");
  EXPECT_EQ(Nearest(std::string(100'000, 'r'), kNames), "");
}

}  // namespace
}  // namespace janus::control
