#include "hub/url.h"

#include <gtest/gtest.h>

namespace janus::hub {
namespace {

std::string Parsed(const std::string& text) {
  const Result<Url> url = ParseUrl(text);
  return url.ok() ? url->Text() + " " + std::to_string(url->port) : "refused";
}

TEST(Url, ReadsHostPortAndTarget) {
  EXPECT_EQ(Parsed("https://huggingface.co"), "https://huggingface.co/ 443");
  EXPECT_EQ(Parsed("http://Hub.Example:8080/a?b=c#d"), "http://hub.example:8080/a?b=c 8080");
  EXPECT_EQ(Parsed("https://a:443?x"), "https://a/?x 443");
  EXPECT_EQ(Parsed("http://[::1]:80/a"), "http://[::1]/a 80");
}

TEST(Url, RefusesWhatItCannotSend) {
  for (const std::string text :
       {"", "huggingface.co", "ftp://a", "https://", "https://:1", "https://user@a", "https://a:0",
        "https://a:65536", "https://a:1x", "https://a b", "https://[::1", "https://a\r\nX: y"}) {
    EXPECT_EQ(Parsed(text), "refused") << text;
  }
  EXPECT_EQ(Parsed("https://a/" + std::string(5000, 'x')), "refused");
}

TEST(Url, ALocationIsAUrlOrAPathOfTheSameHost) {
  const Url base = *ParseUrl("https://hub:1/a/b?c");
  EXPECT_EQ(ResolveLocation(base, "/x?y")->Text(), "https://hub:1/x?y");
  EXPECT_EQ(ResolveLocation(base, "http://other/x")->Text(), "http://other/x");
  EXPECT_EQ(ResolveLocation(base, "//other/x")->Text(), "https://other/x");
  for (const std::string location : {"", "x", "/x y", "/x\r\nSet: z", "javascript:x"}) {
    EXPECT_FALSE(ResolveLocation(base, location).ok()) << location;
  }
}

TEST(Url, EncodesWhatHasAMeaningInAUrl) {
  EXPECT_EQ(PercentEncode("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(PercentEncode("a-b_c.d~e"), "a-b_c.d~e");
  EXPECT_EQ(PercentEncode("a?b#c%\xff"), "a%3Fb%23c%25%FF");
}

}  // namespace
}  // namespace janus::hub
