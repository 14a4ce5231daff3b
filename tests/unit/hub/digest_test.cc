#include "hub/digest.h"

#include <gtest/gtest.h>

namespace janus::hub {
namespace {

std::string DigestOf(const RemoteFile& file, const std::vector<std::string>& pieces) {
  FileDigest digest(file);
  for (const std::string& piece : pieces) digest.Add(piece);
  return digest.Finish();
}

// `printf hello | git hash-object --stdin`, and `printf hello | sha256sum`.
TEST(Digest, IsGitsOfAFileInGitAndSha256OfALargeOne) {
  RemoteFile file{"a", 5, std::string(40, '1'), ""};
  EXPECT_EQ(DigestOf(file, {"hello"}), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");
  EXPECT_EQ(DigestOf(file, {"he", "", "llo"}), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");
  file.sha256 = std::string(64, '2');
  EXPECT_EQ(DigestOf(file, {"hel", "lo"}),
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
}

}  // namespace
}  // namespace janus::hub
