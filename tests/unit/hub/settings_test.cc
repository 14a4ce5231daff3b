#include "hub/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::hub {
namespace {

Result<Settings> Read(const std::map<std::string, std::string>& variables) {
  return ReadSettings([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::string CacheWith(std::map<std::string, std::string> variables) {
  variables.emplace("HOME", "/home-of-test");
  const Result<Settings> settings = Read(variables);
  return settings.ok() ? settings->cache : settings.status().message();
}

TEST(Settings, TheCacheIsWhereHuggingFacesProgramsHaveIt) {
  EXPECT_EQ(CacheWith({}), "/home-of-test/.cache/huggingface/hub");
  EXPECT_EQ(CacheWith({{"XDG_CACHE_HOME", "/x/"}}), "/x/huggingface/hub");
  EXPECT_EQ(CacheWith({{"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/h"}}), "/h/hub");
  EXPECT_EQ(CacheWith({{"HF_HOME", "/h"}, {"HF_HUB_CACHE", "~/c"}}), "/home-of-test/c");
  EXPECT_EQ(CacheWith({{"HF_HUB_CACHE", "~other/c"}}),
            (std::filesystem::current_path() / "~other/c").string());
}

TEST(Settings, SaysWhichVariableIsMissing) {
  EXPECT_TRUE(Contains(Read({}).status().message(), "HOME is not set; set HF_HUB_CACHE"));
  EXPECT_TRUE(Read({{"HF_HOME", "/h"}}).ok());
}

TEST(Settings, ReadsTheEndpoint) {
  EXPECT_EQ(Read({{"HF_HOME", "/h"}})->endpoint.Text(), "https://huggingface.co");
  EXPECT_EQ(Read({{"HF_HOME", "/h"}, {"HF_ENDPOINT", "http://mirror:1/hf//"}})->endpoint.Text(),
            "http://mirror:1/hf");
  EXPECT_TRUE(Contains(Read({{"HF_HOME", "/h"}, {"HF_ENDPOINT", "mirror"}}).status().message(),
                       "HF_ENDPOINT: 'mirror'"));
  EXPECT_FALSE(Read({{"HF_HOME", "/h"}, {"HF_ENDPOINT", "http://mirror?x"}}).ok());
}

TEST(Settings, IsOfflineAsTheOfficialClientReadsIt) {
  for (const std::string yes : {"1", "on", "Yes", "TRUE"}) {
    EXPECT_TRUE(Read({{"HF_HOME", "/h"}, {"HF_HUB_OFFLINE", yes}})->offline) << yes;
  }
  for (const std::string no : {"", "0", "no", "2"}) {
    EXPECT_FALSE(Read({{"HF_HOME", "/h"}, {"HF_HUB_OFFLINE", no}})->offline) << no;
  }
}

TEST(Settings, ReadsHowLongTheHubMayStaySilent) {
  EXPECT_EQ(Read({{"HF_HOME", "/h"}})->patience, Seconds(60));
  EXPECT_EQ(Read({{"HF_HOME", "/h"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "5"}})->patience, Seconds(5));
  for (const std::string wrong : {"0", "-1", "3601", "5s", "x"}) {
    EXPECT_EQ(Read({{"HF_HOME", "/h"}, {"HF_HUB_DOWNLOAD_TIMEOUT", wrong}}).status().code(),
              StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(Settings, TakesTheTokenFromItsVariableOrItsFile) {
  const TempFolder folder;
  const std::string& home = folder.path();
  EXPECT_EQ(Read({{"HF_HOME", home}})->token, "");
  EXPECT_EQ(Read({{"HF_HOME", home}})->token_from, "");
  folder.Write("token", " hf_file\n");
  EXPECT_EQ(Read({{"HF_HOME", home}})->token, "hf_file");
  EXPECT_EQ(Read({{"HF_HOME", home}})->token_from, home + "/token");
  folder.Write("other", "hf_other");
  EXPECT_EQ(Read({{"HF_HOME", home}, {"HF_TOKEN_PATH", home + "/other"}})->token, "hf_other");
  EXPECT_EQ(Read({{"HF_HOME", home}, {"HF_TOKEN", "hf_variable"}})->token, "hf_variable");
}

TEST(Settings, RefusesATokenThatWouldBreakAHeader) {
  const Result<Settings> settings = Read({{"HF_HOME", "/h"}, {"HF_TOKEN", "a\r\nHost: b"}});
  EXPECT_EQ(settings.status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Contains(settings.status().message(), "Host"));  // no part of a token in a message
}

}  // namespace
}  // namespace janus::hub
