#include "hub/listing.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::hub {
namespace {

const std::string kCommit(40, 'c');
const std::string kSha1(40, '1');
const std::string kSha256(64, '2');

std::string WithFiles(const std::string& files) {
  return R"({"sha": ")" + kCommit + R"(", "siblings": [)" + files + "]}";
}

std::string Small(const std::string& name) {
  return R"({"rfilename": ")" + name + R"(", "size": 5, "blobId": ")" + kSha1 + R"("})";
}

TEST(Listing, ReadsFilesOfGitAndLargeOnes) {
  const Result<Listing> listing = ParseListing(WithFiles(
      Small("config.json") + R"(, {"rfilename": "a.safetensors", "size": 7, "blobId": ")" + kSha1 +
      R"(", "lfs": {"sha256": ")" + kSha256 + R"(", "size": 9000000000, "pointerSize": 134}})"));
  ASSERT_TRUE(listing.ok()) << listing.status().message();
  EXPECT_EQ(listing->commit, kCommit);
  ASSERT_EQ(listing->files.size(), 2u);
  EXPECT_EQ(listing->files[0].name, "a.safetensors");
  EXPECT_EQ(listing->files[0].size, 9'000'000'000);
  EXPECT_EQ(listing->files[0].etag(), kSha256);
  EXPECT_EQ(listing->Find("config.json")->etag(), kSha1);
  EXPECT_EQ(listing->Find("config.json")->size, 5);
  EXPECT_EQ(listing->Find("b"), nullptr);
}

TEST(Listing, LeavesOutFoldersAndNamesThatAreNotPlain) {
  const Result<Listing> listing =
      ParseListing(WithFiles(Small("onnx/model.onnx") + "," + Small("../x") + "," + Small("/x") +
                             "," + Small(".gitattributes") + "," + Small("a") + ", {}"));
  ASSERT_TRUE(listing.ok()) << listing.status().message();
  ASSERT_EQ(listing->files.size(), 1u);
  EXPECT_EQ(listing->files[0].name, "a");
}

TEST(Listing, RefusesWhatIsNone) {
  const std::string entry = Small("a");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = entry;
    return WithFiles(text.replace(text.find(from), from.size(), to));
  };
  for (const auto& [json, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "no JSON object"},
           {"[]", "no JSON object"},
           {"<html>", "no JSON object"},
           {"{}", "no commit"},
           {R"({"sha": "../../x", "siblings": []})", "no commit"},
           {R"({"sha": ")" + kCommit + R"("})", "no 'siblings'"},
           {R"({"sha": ")" + kCommit + R"(", "siblings": {}})", "no 'siblings'"},
           {WithFiles("1"), "no object"},
           {changed(kSha1, "../x"), "no blobId"},
           {changed(kSha1, std::string(40, 'G')), "no blobId"},
           {changed("5", "-5"), "no size"},
           {changed("5", "5.5"), "no size"},
           {changed("5", "1e30"), "no size"},
           {changed("5", "18446744073709551615"), "no size"},
           {changed("5", "\"5\""), "no size"},
           {WithFiles(entry + "," + entry), "two files a"},
           {WithFiles(R"({"rfilename": "a", "size": 5, "blobId": ")" + kSha1 +
                      R"(", "lfs": {"sha256": "x", "size": 1}})"),
            "no sha256"},
       }) {
    const Result<Listing> listing = ParseListing(json);
    ASSERT_FALSE(listing.ok()) << json;
    EXPECT_EQ(listing.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(listing.status().message(), why)) << listing.status().message();
  }
}

TEST(Listing, BoundsTheNumberOfFiles) {
  std::string files;
  for (size_t i = 0; i <= kMaxListedFiles; ++i) files += i == 0 ? "{}" : ",{}";
  EXPECT_FALSE(ParseListing(WithFiles(files)).ok());
}

}  // namespace
}  // namespace janus::hub
