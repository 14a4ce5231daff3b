#include "common/base64.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

TEST(Base64, DecodesWhatItEncodes) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(*DecodeBase64(EncodeBase64(bytes)), bytes) << i;
    bytes += static_cast<char>(i * 7);
  }
  EXPECT_EQ(EncodeBase64("foobar"), "Zm9vYmFy");  // RFC 4648, section 10
  EXPECT_EQ(EncodeBase64("foob"), "Zm9vYg==");
  EXPECT_EQ(*DecodeBase64("Zm9v\nYg==\n"), "foob");
  for (const std::string_view bad : {"Z", "Zm9", "Zm9v!", "Zg=", "Z===", "====", "Zg==Zg=="}) {
    EXPECT_FALSE(DecodeBase64(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace janus
