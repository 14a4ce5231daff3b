#include "hub/cache.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'a');
const std::string kOther(40, 'b');
const ModelId kModel{"org/demo", "main"};

std::string TextOf(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Cache, HasTheLayoutOfTheOfficialClient) {
  const Cache cache("/c");
  EXPECT_EQ(cache.BlobPath("org/demo", "e"), "/c/models--org--demo/blobs/e");
  EXPECT_EQ(cache.LockPath("org/demo", "e"), "/c/.locks/models--org--demo/e.lock");
  EXPECT_EQ(cache.SnapshotFolder("org/demo", kCommit), "/c/models--org--demo/snapshots/" + kCommit);
}

TEST(Cache, KnowsTheCommitsOfRevisions) {
  const TempFolder folder;
  const Cache cache(folder.path());
  ASSERT_TRUE(cache.MakeFolders("org/demo", kCommit).ok());
  EXPECT_EQ(cache.FindCommit(kModel), std::nullopt);
  EXPECT_EQ(cache.FindCommit({"org/demo", kOther}), kOther);
  ASSERT_TRUE(cache.WriteRef(kModel, kCommit).ok());
  ASSERT_TRUE(cache.WriteRef({"org/demo", "refs/pr/1"}, kOther).ok());
  EXPECT_EQ(cache.FindCommit(kModel), kCommit);
  EXPECT_EQ(TextOf(folder.path() + "/models--org--demo/refs/refs/pr/1"), kOther);
  ASSERT_TRUE(cache.WriteRef(kModel, kOther).ok());
  EXPECT_EQ(cache.FindCommit(kModel), kOther);
  // Neither a text that is no commit nor a path out of the folder is taken.
  folder.Write("models--org--demo/refs/main", "../../outside");
  EXPECT_EQ(cache.FindCommit(kModel), std::nullopt);
}

TEST(Cache, LinksAFileToItsBlobByARelativePath) {
  const TempFolder folder;
  const Cache cache(folder.path());
  ASSERT_TRUE(cache.MakeFolders("org/demo", kCommit).ok());
  folder.Write("models--org--demo/blobs/e1", "one");
  folder.Write("models--org--demo/blobs/e2", "two");
  const std::string file = cache.SnapshotFolder("org/demo", kCommit) + "/config.json";
  for (const auto& [etag, text] : {std::pair("e1", "one"), {"e1", "one"}, {"e2", "two"}}) {
    ASSERT_TRUE(cache.Link("org/demo", kCommit, "config.json", etag).ok());
    EXPECT_EQ(fs::read_symlink(file).string(), "../../blobs/" + std::string(etag));
    EXPECT_EQ(TextOf(file), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(cache.SnapshotFolder("org/demo", kCommit)), {}), 1)
      << "nothing temporary is left";
}

TEST(Cache, SaysThatItCannotBeWritten) {
  const TempFolder folder;
  folder.Write("file", "");
  const Status status = Cache(folder.path() + "/file").MakeFolders("org/demo", kCommit);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(status.message(), "set HF_HUB_CACHE to a folder that can be written"));
}

TEST(Cache, ListsSnapshotsWithTheirRevisionsAndWhatTheyLack) {
  const TempFolder folder;
  const Cache cache(folder.path());
  EXPECT_TRUE(ListSnapshots(Cache(folder.path() + "/none")).empty());
  for (const std::string& commit : {kOther, kCommit}) {
    ASSERT_TRUE(cache.MakeFolders("org/demo", commit).ok());
  }
  ASSERT_TRUE(cache.MakeFolders("org/apart", kCommit).ok());
  fs::create_directories(folder.path() + "/datasets--org--demo/snapshots/" + kCommit);
  fs::create_directories(folder.path() + "/models--org--demo/snapshots/no-commit");
  ASSERT_TRUE(cache.WriteRef(kModel, kCommit).ok());
  ASSERT_TRUE(cache.WriteRef({"org/demo", "v1"}, kCommit).ok());
  folder.Write("models--org--demo/blobs/e1", "{}");
  for (const std::string name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    ASSERT_TRUE(cache.Link("org/demo", kCommit, name, "e1").ok());
  }
  const std::vector<CachedSnapshot> listed = ListSnapshots(cache);
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[0].repo, "org/apart");
  EXPECT_EQ(listed[1].repo, "org/demo");
  EXPECT_EQ(listed[1].commit, kCommit);
  EXPECT_EQ(listed[1].revisions, (std::vector<std::string>{"main", "v1"}));
  EXPECT_EQ(listed[1].bytes, 6);
  EXPECT_TRUE(listed[1].missing.empty());
  EXPECT_TRUE(listed[2].revisions.empty());
  EXPECT_EQ(listed[2].missing.size(), 3u);
}

}  // namespace
}  // namespace janus::hub
