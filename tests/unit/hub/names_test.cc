#include "hub/names.h"

#include <gtest/gtest.h>

namespace janus::hub {
namespace {

TEST(Names, ReadsAModelWithAndWithoutARevision) {
  const Result<ModelId> plain = ParseModelId("deepseek-ai/DeepSeek-V2.5_x");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->repo, "deepseek-ai/DeepSeek-V2.5_x");
  EXPECT_EQ(plain->revision, "main");
  const Result<ModelId> revised = ParseModelId("a/b@refs/pr/1");
  ASSERT_TRUE(revised.ok());
  EXPECT_EQ(revised->repo, "a/b");
  EXPECT_EQ(revised->revision, "refs/pr/1");
}

TEST(Names, RefusesWhatIsNoRepo) {
  for (const std::string repo :
       {"", "a", "/", "a/", "/b", "a/b/c", "../b", "a/..", "./b", "a/.b", "a/b.", "a/-b", "a/b-",
        "a--x/b", "a/b..c", "a/b c", "a/b\n", "a\\b/c", "/models/b"}) {
    EXPECT_FALSE(CheckRepo(repo).ok()) << repo;
    EXPECT_FALSE(LooksLikeModelId(repo)) << repo;
  }
  EXPECT_TRUE(CheckRepo("a/" + std::string(96, 'b')).ok());
  EXPECT_FALSE(CheckRepo("a/" + std::string(97, 'b')).ok());
}

TEST(Names, RefusesRevisionsThatGitRefusesOrThatLeaveTheFolder) {
  for (const std::string revision :
       {"main", "v1.0", "refs/pr/1", "feature/x+y", "0123456789012345678901234567890123456789"}) {
    EXPECT_TRUE(CheckRevision(revision).ok()) << revision;
  }
  for (const std::string revision :
       {"",     "..",   "../main", "a/../b", "/main", "main/", "a//b", ".hidden",
        "a/.b", "a b",  "a\nb",    "a:b",    "a?b",   "a*b",   "a~1",  "a^",
        "a[b",  "a\\b", "a.lock",  "-x",     "a.",    "a@{1}"}) {
    EXPECT_FALSE(CheckRevision(revision).ok()) << revision;
  }
  EXPECT_FALSE(CheckRevision(std::string(201, 'a')).ok());
}

TEST(Names, TakesOnlyNamesThatStayInOneFolder) {
  for (const std::string name : {"config.json", "model-00001-of-00002.safetensors", "a+b.txt"}) {
    EXPECT_TRUE(IsPlainFileName(name)) << name;
  }
  for (const std::string name :
       {"", ".", "..", ".gitattributes", "a/b", "../a", "/a", "a\\b", "a b", "a\n"}) {
    EXPECT_FALSE(IsPlainFileName(name)) << name;
  }
  EXPECT_FALSE(IsPlainFileName(std::string("a\0b", 3)));
  EXPECT_FALSE(IsPlainFileName(std::string(201, 'a')));
}

TEST(Names, ARepoAndItsFolderStandForEachOther) {
  EXPECT_EQ(CacheFolderOf("org/some-model"), "models--org--some-model");
  EXPECT_EQ(RepoOfCacheFolder("models--org--some-model"), "org/some-model");
  for (const std::string folder :
       {"datasets--a--b", "models--a", "models----b", "models--a--..", "models--a--b--c", "x"}) {
    EXPECT_EQ(RepoOfCacheFolder(folder), "") << folder;
  }
}

}  // namespace
}  // namespace janus::hub
