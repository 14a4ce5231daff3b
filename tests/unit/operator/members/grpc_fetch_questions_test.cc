#include "operator/members/grpc_fetch_questions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "dataplane/fetch/progress_server.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

// Asks and waits for the result.
Result<FetchProgress> Ask(const std::string& address) {
  GrpcFetchQuestions questions;
  std::atomic<int> woken = 0;
  const auto question = questions.Ask(address, [&] {
    ++woken;
    woken.notify_all();
  });
  woken.wait(0);
  EXPECT_TRUE(question->done());
  return question->result();
}

TEST(GrpcFetchQuestions, BringWhatTheDownloadTells) {
  const TempFolder folder;
  const std::string address = "unix:" + folder.path() + "/fetch";
  hub::Progress progress;
  const auto server = dataplane::ProgressServer::Create(address, progress);
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  const Result<FetchProgress> first = Ask(address);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(*first, FetchProgress());
  progress.Begin(hub::Progress::Phase::kWeights, 7, 1000);
  progress.AddHeld(300);
  progress.AddFetched(40);
  progress.EndFile();
  EXPECT_EQ(*Ask(address), (FetchProgress{340, 1000, 1, 7}));
}

TEST(GrpcFetchQuestions, EndWithoutAnAnswer) {
  const TempFolder folder;
  EXPECT_EQ(Ask("unix:" + folder.path() + "/none").status().code(), StatusCode::kUnavailable);
}

TEST(GrpcFetchQuestions, APortThatIsTakenIsAnError) {
  hub::Progress progress;
  EXPECT_EQ(dataplane::ProgressServer::Create("unix:/nowhere/fetch", progress).status().code(),
            StatusCode::kUnavailable);
}

}  // namespace
}  // namespace janus::control
