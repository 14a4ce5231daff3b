#include "cli/objects/columns.h"

#include <gtest/gtest.h>

namespace janus::cli {
namespace {

TEST(Columns, AreAsWideAsTheirWidestCell) {
  EXPECT_EQ(RenderColumns({{"NAME", "AGE", "NOTE"}, {"a-long-name", "5s", ""}, {"b", "10m", "x"}}),
            "NAME          AGE   NOTE\n"
            "a-long-name   5s\n"
            "b             10m   x\n");
}

TEST(Columns, AreIndentedAndMayBeOfDifferentLength) {
  EXPECT_EQ(RenderColumns({{"A"}, {"b", "c"}}, 2), "  A\n  b   c\n");
  EXPECT_EQ(RenderColumns({}), "");
  EXPECT_EQ(RenderColumns({{}}), "\n");
}

}  // namespace
}  // namespace janus::cli
