#include "common/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace janus {
namespace {

constexpr size_t kSound = std::string_view::npos;

TEST(Utf8, TakesEveryLengthAtItsEdges) {
  for (const std::string_view text :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa4\xe2\x82\xac"}) {
    EXPECT_EQ(FindBrokenUtf8(text), kSound) << testing::PrintToString(text);
  }
  EXPECT_EQ(FindBrokenUtf8(std::string_view("\0", 1)), kSound);
}

TEST(Utf8, NamesTheFirstBrokenByte) {
  // A lone continuation, overlong forms, a surrogate, beyond U+10FFFF, cut off, a bad second byte.
  for (const std::string_view tail :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3z",
        "\xe2\x82z", "\xf0\x9f\x98z"}) {
    EXPECT_EQ(FindBrokenUtf8("\xc3\xa4" + std::string(tail)), 2u) << testing::PrintToString(tail);
  }
}

}  // namespace
}  // namespace janus
