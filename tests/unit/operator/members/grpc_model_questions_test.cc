#include "operator/members/grpc_model_questions.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "common/clock.h"
#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "rpc/channel.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

// A worker that answers as the test says, or not at all.
class ScriptedWorker final : public v1::Control::Service {
 public:
  explicit ScriptedWorker(const std::string& address) {
    grpc::ServerBuilder builder;
    AllowIdleCallers(builder);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedWorker() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status DescribeModel(grpc::ServerContext* context, const v1::DescribeModelRequest* request,
                             v1::DescribeModelReply* reply) override {
    was_called = true;
    was_called.notify_all();
    const MutexLock lock(mu_);
    while (is_silent && !context->IsCancelled()) {
      changed_.WaitUntil(mu_, MonotonicClock::now() + std::chrono::milliseconds(5));
    }
    if (request->service_uid() != "uid-1") return {grpc::StatusCode::PERMISSION_DENIED, "whose?"};
    reply->set_config_json("{}");
    reply->set_model_digest(digest);
    reply->set_memory_bytes(1 << 30);
    reply->set_cores(2);
    return grpc::Status::OK;
  }

  std::string digest = "0123";  // set before a call
  std::atomic<bool> is_silent = false;
  std::atomic<bool> was_called = false;

 private:
  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<grpc::Server> server_;
};

class GrpcModelQuestionsTest : public testing::Test {
 protected:
  // Asks and waits for the result.
  Result<ModelReport> Ask(const std::string& uid, const std::string& address) {
    std::atomic<int> woken = 0;
    const auto question = questions_.Ask(uid, address, [&] {
      ++woken;
      woken.notify_all();
    });
    woken.wait(0);
    EXPECT_TRUE(question->done());
    EXPECT_EQ(woken, 1);
    return question->result();
  }

  const TempFolder folder_;
  const std::string address_ = "unix:" + folder_.path() + "/worker";
  GrpcModelQuestions questions_;
};

TEST_F(GrpcModelQuestionsTest, BringsWhatTheWorkerSays) {
  ScriptedWorker worker(address_);
  const Result<ModelReport> report = Ask("uid-1", address_);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->config_json, "{}");
  EXPECT_EQ(report->digest, "0123");
  EXPECT_EQ(report->room.memory_bytes, 1 << 30);
}

TEST_F(GrpcModelQuestionsTest, SaysWhyThereIsNoAnswer) {
  EXPECT_EQ(Ask("uid-1", address_).status().code(), StatusCode::kUnavailable);
  ScriptedWorker worker(address_);
  EXPECT_EQ(Ask("uid-2", address_).status(), PermissionDenied("whose?"));
  worker.digest = "";
  EXPECT_EQ(Ask("uid-1", address_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GrpcModelQuestionsTest, OneThatIsGivenUpEndsAtOnceAndWakesNobody) {
  ScriptedWorker worker(address_);
  worker.is_silent = true;
  bool was_woken = false;
  auto question = questions_.Ask("uid-1", address_, [&] { was_woken = true; });
  worker.was_called.wait(false);
  EXPECT_FALSE(question->done());
  question.reset();
  EXPECT_FALSE(was_woken);
}

}  // namespace
}  // namespace janus::control
