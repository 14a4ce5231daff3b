#include "common/model/digest.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace janus {
namespace {

// A file with the right structure: header length, header, data.
std::string FileOf(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + data;
}

class DigestTest : public testing::Test {
 protected:
  DigestTest() {
    folder_.Write("b.safetensors", FileOf("{\"w\":1}", std::string(100'000, 'w')));
    folder_.Write("a.safetensors", FileOf("{\"v\":1}", "short"));
  }
  uint64_t Digest(const std::string& config = "{}") {
    return *DigestCheckpoint(folder_.path(), config);
  }
  TempFolder folder_;
};

TEST_F(DigestTest, IsTheSameForTheSameFiles) {
  const uint64_t digest = Digest();
  EXPECT_EQ(Digest(), digest);
  folder_.Write("README.md", "not of the model");
  EXPECT_EQ(Digest(), digest);
}

TEST_F(DigestTest, TellsConfigHeadersLengthsNamesAndOtherWeightsApart) {
  const uint64_t digest = Digest();
  EXPECT_NE(Digest("{ }"), digest);
  folder_.Write("b.safetensors", FileOf("{\"x\":1}", std::string(100'000, 'w')));
  EXPECT_NE(Digest(), digest) << "header";
  folder_.Write("b.safetensors", FileOf("{\"w\":1}", std::string(100'001, 'w')));
  EXPECT_NE(Digest(), digest) << "length";
  folder_.Write("b.safetensors", FileOf("{\"w\":1}", std::string(100'000, 'u')));
  EXPECT_NE(Digest(), digest) << "weights";
  folder_.Write("b.safetensors", FileOf("{\"w\":1}", std::string(100'000, 'w')));
  EXPECT_EQ(Digest(), digest);
  folder_.Write("c.safetensors", "");
  EXPECT_NE(Digest(), digest) << "another file";
}

TEST_F(DigestTest, LeavesBrokenFilesToTheLoader) {
  folder_.Write("c.safetensors", std::string(8, '\xff'));
  folder_.Write("d.safetensors", "abc");
  EXPECT_TRUE(DigestCheckpoint(folder_.path(), "").ok());
  EXPECT_EQ(DigestCheckpoint(folder_.path() + "/none", "").status().code(), StatusCode::kNotFound);
}

TEST_F(DigestTest, OfASnapshotDependsOnTheCommitAndNotOnItsFiles) {
  const auto digest = [&](const std::string& commit, const std::string& config = "{}") {
    return *DigestModel(folder_.path(), config, commit);
  };
  const uint64_t whole = digest("c1");
  folder_.Write("c.safetensors", FileOf("{\"x\":1}", "more"));
  EXPECT_EQ(digest("c1"), whole);
  EXPECT_NE(digest("c2"), whole);
  EXPECT_NE(digest("c1", "{ }"), whole);
  EXPECT_EQ(digest(""), Digest()) << "no snapshot";
}

}  // namespace
}  // namespace janus
