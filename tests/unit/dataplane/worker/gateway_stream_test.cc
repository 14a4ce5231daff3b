#include "dataplane/worker/gateway_stream.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

constexpr uint64_t kNumber = 9;

class Target final : public StreamTarget {
 public:
  Status CheckService(const std::string&) const override { return OkStatus(); }
  v1::Welcome Describe() const override { return {}; }
  int64_t max_model_len() const override { return 100; }
  Status CheckTakesRequests() const override { return OkStatus(); }
  Status Submit(Request request) override {
    submitted.push_back(request.key);
    return OkStatus();
  }
  Result<std::shared_ptr<const TokenGrammar>> Compile(const std::string& grammar) override {
    return InvalidArgument("no grammar is compiled here: " + grammar);
  }
  void Cancel(const RequestKey& key) override { cancelled.push_back(key); }
  void Attached(const std::string& gateway_id) override { attached.push_back(gateway_id); }
  void TakeCounts(GatewayCounts counts) override { reports.push_back(std::move(counts)); }

  std::vector<std::string> attached;
  std::vector<GatewayCounts> reports;
  std::vector<RequestKey> submitted, cancelled;
};

class GatewayStreamTest : public testing::Test {
 protected:
  Status Hello(uint32_t credits) {
    v1::ToAttention message;
    message.mutable_hello()->set_gateway_id("g");
    message.mutable_hello()->set_credits(credits);
    return stream_.Handle(message);
  }
  void Submit(uint64_t id, int prompt = 1) {
    v1::ToAttention message;
    v1::Submit& submit = *message.mutable_submit();
    submit.set_request_id(id);
    submit.set_attempt(1);
    for (int i = 0; i < prompt; ++i) submit.add_prompt_tokens(5);
    submit.set_max_tokens(10);
    EXPECT_TRUE(stream_.Handle(message).ok());
  }
  void Cancel(uint64_t id) {
    v1::ToAttention message;
    message.mutable_cancel()->set_request_id(id);
    message.mutable_cancel()->set_attempt(1);
    EXPECT_TRUE(stream_.Handle(message).ok());
  }
  void Grant(uint32_t steps) {
    v1::ToAttention message;
    message.mutable_credits()->set_steps(steps);
    EXPECT_TRUE(stream_.Handle(message).ok());
  }
  void Step(uint64_t id, int32_t token, FinishReason finish = FinishReason::kNone) {
    StepOutput output;
    TokenEvent event;
    event.key = {kNumber, id, 1};
    event.token = token;
    event.finish = finish;
    output.events.push_back(event);
    stream_.OnStep(std::move(output));
  }
  // The messages that may be written now: "welcome", "rejected 2: why", "step 1:7,8. 2:9 ", in
  // order.
  std::string Read() {
    std::string all;
    v1::FromAttention message;
    while (stream_.TakeNext(message)) {
      if (message.has_welcome()) all += "welcome ";
      if (message.has_rejected()) {
        all += "rejected " + std::to_string(message.rejected().request_id()) + ": " +
               message.rejected().message() + " ";
      }
      if (!message.has_step()) continue;
      all += "step ";
      for (const v1::RequestTokens& request : message.step().requests()) {
        all += std::to_string(request.request_id()) + ":";
        for (const uint32_t token : request.tokens()) all += std::to_string(token) + ",";
        if (request.finish_reason() != v1::FINISH_REASON_NONE) all.back() = '.';
        all += " ";
      }
    }
    return all;
  }

  // From the welcome, which must be due.
  uint64_t ReadMostRequests() {
    v1::FromAttention message;
    EXPECT_TRUE(stream_.TakeNext(message) && message.has_welcome());
    return message.welcome().max_requests();
  }

  Target target_;
  GatewayStream stream_{target_, kNumber, Logger(2, LogLevel::kError)};
};

TEST_F(GatewayStreamTest, BeginsWithOneHello) {
  EXPECT_EQ(stream_.Handle({}).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Hello(1).ok());
  EXPECT_EQ(Hello(1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(stream_.Handle({}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(), "welcome ");
}

TEST_F(GatewayStreamTest, HandsOnWhatTheGatewayCounts) {
  v1::ToAttention counts;
  counts.mutable_counts()->set_reports(3);
  counts.mutable_counts()->set_arrived(40);
  EXPECT_EQ(stream_.Handle(counts).code(), StatusCode::kFailedPrecondition) << "before its Hello";
  EXPECT_TRUE(target_.attached.empty());
  ASSERT_TRUE(Hello(1).ok());
  EXPECT_EQ(target_.attached, std::vector<std::string>{"g"});
  v1::FromAttention message;
  ASSERT_TRUE(stream_.TakeNext(message));
  EXPECT_TRUE(message.welcome().accepts_counts());
  ASSERT_TRUE(stream_.Handle(counts).ok());
  ASSERT_EQ(target_.reports.size(), 1U);
  EXPECT_EQ(target_.reports[0].reports, 3U);
  EXPECT_EQ(target_.reports[0].arrived, 40U);
  EXPECT_FALSE(stream_.TakeNext(message)) << "nothing is owed for it";
}

TEST_F(GatewayStreamTest, MergesWhatItHasNoCreditFor) {
  ASSERT_TRUE(Hello(1).ok());
  Submit(1);
  Submit(2);
  Step(1, 7);
  EXPECT_EQ(Read(), "welcome step 1:7, ");
  Step(1, 8);
  Step(2, 9);
  Step(1, 10, FinishReason::kLength);
  EXPECT_EQ(Read(), "");
  Grant(1);
  EXPECT_EQ(Read(), "step 1:8,10. 2:9, ");
}

TEST_F(GatewayStreamTest, ANumberIsFreeOnceItsEndHasBeenWritten) {
  ASSERT_TRUE(Hello(0).ok());
  Submit(1);
  Submit(1);
  EXPECT_EQ(Read(), "welcome rejected 1: the request is open already ");
  Step(1, 7, FinishReason::kStop);
  Submit(1);
  EXPECT_EQ(Read(), "rejected 1: the request is open already ") << "its end is still owed";
  Grant(1);
  EXPECT_EQ(Read(), "step 1:7. ");
  Submit(1);
  EXPECT_EQ(target_.submitted.size(), 2u);
}

TEST_F(GatewayStreamTest, OfACancelledRequestNothingMoreIsSaid) {
  ASSERT_TRUE(Hello(10).ok());
  Submit(1);
  Step(1, 7);
  Cancel(1);
  Cancel(1);
  Cancel(2);
  EXPECT_EQ(target_.cancelled.size(), 1u);
  Step(1, -1, FinishReason::kCancelled);
  EXPECT_EQ(Read(), "welcome step ") << "the load alone";
}

TEST_F(GatewayStreamTest, IsNotReadFromWhileItsRejectionsLieUnread) {
  ASSERT_TRUE(Hello(0).ok());
  int submits = 0;
  for (; !stream_.holds_reading(); ++submits) Submit(static_cast<uint64_t>(submits), 0);
  EXPECT_EQ(submits, 1024);
  EXPECT_TRUE(Contains(Read(), "rejected 0: the prompt is empty"));
  EXPECT_FALSE(stream_.holds_reading());
}

TEST_F(GatewayStreamTest, TakesAsManyRequestsAsItSaidWhateverTheyAreOwed) {
  ASSERT_TRUE(Hello(0).ok());
  const uint64_t most = ReadMostRequests();
  for (uint64_t id = 0; id < most; ++id) {
    Submit(id);
    Step(id, 1);
  }
  EXPECT_EQ(target_.submitted.size(), most);
}

TEST_F(GatewayStreamTest, BoundsTheOpenRequestsAndThoseWhoseEndIsOwed) {
  ASSERT_TRUE(Hello(0).ok());
  const uint64_t most = ReadMostRequests();
  for (uint64_t id = 0; id < most; ++id) Submit(id);
  for (uint64_t id = 0; id < most; ++id) Step(id, 1, FinishReason::kLength);
  EXPECT_EQ(Read(), "");
  Submit(most);
  EXPECT_TRUE(Contains(Read(), "requests of this gateway are open already"));
  Grant(1);
  Read();
  Submit(most);
  EXPECT_EQ(target_.submitted.size(), most + 1);
}

TEST_F(GatewayStreamTest, ACancelledRequestMakesRoom) {
  ASSERT_TRUE(Hello(1).ok());
  const uint64_t most = ReadMostRequests();
  for (uint64_t id = 0; id < most; ++id) {
    Submit(id);
    Step(id, 1);
  }
  for (uint64_t id = 1; id < most; ++id) Cancel(id);
  Submit(most);
  EXPECT_EQ(Read(), "step 0:1, ");
  EXPECT_EQ(target_.submitted.size(), most + 1);
}

TEST_F(GatewayStreamTest, ExpertsThatPileUpAreSentInMessagesThatFitTheBound) {
  ASSERT_TRUE(Hello(0).ok());
  ReadMostRequests();
  const std::vector<uint16_t> third(size_t{3} << 20, 7);  // 6 MiB
  for (uint64_t id = 1; id <= 4; ++id) {
    Submit(id);
    for (const int from : {0, 1}) {
      StepOutput output;
      TokenEvent& event = output.events.emplace_back();
      event.key = {kNumber, id, 1};
      event.routed = third;
      event.routed_from = from;
      stream_.OnStep(std::move(output));
    }
    Step(id, 5, FinishReason::kLength);
  }
  Grant(3);
  v1::FromAttention message;
  uint64_t id = 0;
  for (int left = 4; left > 0; left -= 2) {
    ASSERT_TRUE(stream_.TakeNext(message)) << left;
    ASSERT_EQ(message.step().requests_size(), 2) << "24 MiB";
    for (const v1::RequestTokens& request : message.step().requests()) {
      EXPECT_EQ(request.request_id(), ++id);
      EXPECT_EQ(request.routed_experts().size(), size_t{12} << 20);
      EXPECT_EQ(request.routed_experts_from(), 0u);
      EXPECT_EQ(request.tokens_size(), 1);
    }
  }
  EXPECT_FALSE(stream_.TakeNext(message));
}

}  // namespace
}  // namespace janus::dataplane
