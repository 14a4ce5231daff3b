#include "dataplane/fetch/fetch.h"

#include <gtest/gtest.h>

#include "dataplane/fetch/progress_server.h"

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

TEST(Fetch, NamesFieldsOfTheServiceWhereOthersSetVariables) {
  EXPECT_EQ(WordsForPods("set HF_TOKEN to a token, or HF_TOKEN; is HF_ENDPOINT right?"),
            "set spec.model.source.huggingFace.tokenSecretRef to a token, or "
            "spec.model.source.huggingFace.tokenSecretRef; is hub.endpoint of the chart right?");
  EXPECT_EQ(WordsForPods("check the network, or set HF_HUB_OFFLINE=1 to use what the cache holds"),
            "check the network");
  EXPECT_EQ(WordsForPods("or set HF_HUB_CACHE to a larger disk"),
            "or set spec.model.cache to a larger disk");
}

TEST(Fetch, TellsHowFarItIsWithinWhatThereIs) {
  hub::Progress::State state;
  EXPECT_EQ(ProgressOf(state), FetchProgress());
  state.bytes_total = 7;
  state.bytes_done = 5;
  state.files_total = 2;
  state.files_done = 1;
  EXPECT_EQ(ProgressOf(state), (FetchProgress{5, 7, 1, 2}));
  state.bytes_done = -1;  // a broken beginning was dropped
  EXPECT_EQ(ProgressOf(state).bytes_done, 0);
}

}  // namespace
}  // namespace janus::dataplane
