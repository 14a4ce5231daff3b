#include "dataplane/fetch/fetch.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

TEST(Fetch, ReportsInJson) {
  EXPECT_EQ(ReportOf({"0123", "/model/snapshots/0123", 7, 5}),
            R"({"commit":"0123","bytes":7,"fetched":5})");
}

TEST(Fetch, TakesTheGivenFolderAsCacheAndNeedsNoHome) {
  unsetenv("HOME");
  setenv("HF_HUB_CACHE", "/other", 1);
  setenv("HF_ENDPOINT", "http://hub.example", 1);
  const Result<hub::Settings> settings = FetchSettings("/model");
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_EQ(settings->cache, "/model");
  EXPECT_EQ(settings->endpoint.host, "hub.example");
  EXPECT_EQ(settings->token, "");
}

TEST(Fetch, RefusesNamesThatAreNoModelBeforeItAsksAnyHub) {
  StopSignals stop;
  hub::Settings settings;
  settings.offline = true;
  const auto status_of = [&](const std::string& repo, const std::string& revision) {
    return Fetch({repo, revision, "/nowhere", FetchFor::kAll, ""}, settings, Logger(), stop)
        .status()
        .code();
  };
  EXPECT_EQ(status_of("a/../b", "main"), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of("org/model", "../main"), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace janus::dataplane
