// The token stream of an attention instance, as a gateway sees it.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/contains.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

constexpr const char* kUid = ServiceUnderTest::kUid;

class TokensTest : public testing::Test {
 protected:
  void Serve() { service_.Serve(); }
  std::unique_ptr<TestGateway> Attach(uint32_t credits = 1000) {
    auto gateway = std::make_unique<TestGateway>(service_.attention());
    gateway->Hello(kUid, credits);
    welcome_ = gateway->Read().welcome();
    return gateway;
  }
  static v1::Rejected AwaitRejected(TestGateway& gateway) {
    for (;;) {
      const v1::FromAttention message = gateway.Read();
      if (message.has_rejected()) return message.rejected();
      if (message.message_case() == v1::FromAttention::MESSAGE_NOT_SET) {
        ADD_FAILURE() << "nothing was rejected";
        return {};
      }
    }
  }

  ServiceUnderTest service_;
  v1::Welcome welcome_;
};

TEST_F(TokensTest, BeginsWithOneHello) {
  Serve();
  {
    TestGateway gateway(service_.attention());
    gateway.Send(TestGateway::Submit(1, {5}, 1));
    EXPECT_EQ(gateway.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  }
  {
    TestGateway gateway(service_.attention());
    gateway.Hello();
    gateway.Hello();
    EXPECT_EQ(gateway.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  }
  for (const std::string& id : {std::string(), std::string(10'000, 'x')}) {
    TestGateway gateway(service_.attention());
    gateway.Hello(kUid, 1, id);
    EXPECT_EQ(gateway.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(TokensTest, SaysWhatItServes) {
  Serve();
  const auto gateway = Attach();
  EXPECT_EQ(welcome_.instance(), "attention-0");
  EXPECT_EQ(welcome_.vocabulary_size(), 512u);
  EXPECT_EQ(welcome_.max_context_tokens(), 1024u);
  EXPECT_TRUE(welcome_.accepts_replay());
  EXPECT_GT(welcome_.kv_capacity_tokens(), 0u);
  EXPECT_EQ(welcome_.model_digest().size(), 16u);
  EXPECT_EQ(welcome_.text_digest(), "") << "the checkpoint has no tokenizer";
}

// A gateway continues an answer only if it would be the same.
TEST(TokensOfServices, HaveADigestOfTheirOwnWhereTheCacheOrTheExchangeIsInFp8) {
  const auto digest = [](bool fp8_kv_cache, v1::Compression compression = v1::COMPRESSION_NONE) {
    ServiceUnderTest service;
    service.config().set_fp8_kv_cache(fp8_kv_cache);
    service.config().set_compression(compression);
    service.Serve();
    TestGateway gateway(service.attention());
    gateway.Hello();
    return gateway.Read().welcome().model_digest();
  };
  EXPECT_EQ(digest(false), digest(false));
  EXPECT_NE(digest(true), digest(false));
  EXPECT_NE(digest(false, v1::COMPRESSION_FP8), digest(false));
}

TEST_F(TokensTest, HoldsStepsBackWithoutCreditAndLosesNoToken) {
  Serve();
  const auto gateway = Attach(1);
  gateway->Send(TestGateway::Submit(1, {5, 6}, 60));
  const v1::FromAttention first = gateway->Read();
  ASSERT_TRUE(first.has_step());
  const int tokens = first.step().requests(0).tokens_size();
  // Without credit a rejection is sent all the same, and no Step before it.
  gateway->Send(TestGateway::Submit(2, {}, 60));
  const v1::FromAttention second = gateway->Read();
  ASSERT_TRUE(second.has_rejected()) << second.ShortDebugString();
  while (service_.attention().worker().statistics().tokens < 60) std::this_thread::yield();
  v1::ToAttention credits;
  credits.mutable_credits()->set_steps(UINT32_MAX);
  gateway->Send(credits);
  gateway->Send(credits);  // must not wrap around
  const v1::RequestTokens rest = gateway->ReadToTheEnd(1);
  EXPECT_EQ(tokens + rest.tokens_size(), 60);
  EXPECT_EQ(rest.finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(TokensTest, TheLoadOfACancelledRequestIsGoneAlthoughNoStepFollows) {
  Serve();
  const auto gateway = Attach();
  gateway->Send(TestGateway::Submit(1, {5, 6}, 1000));
  EXPECT_GT(gateway->Read().step().kv_tokens_in_use(), 0u);
  v1::ToAttention cancel;
  cancel.mutable_cancel()->set_request_id(1);
  cancel.mutable_cancel()->set_attempt(1);
  gateway->Send(cancel);
  for (;;) {
    const v1::FromAttention message = gateway->Read();
    ASSERT_TRUE(message.has_step());
    if (message.step().running() > 0) continue;
    EXPECT_EQ(message.step().kv_tokens_in_use(), 0u);
    EXPECT_EQ(message.step().requests_size(), 0) << "nobody waits for it";
    return;
  }
}

TEST_F(TokensTest, RejectsWhatCannotBeTaken) {
  Serve();
  const auto gateway = Attach();
  const auto rejected = [&](auto&& change, grpc::StatusCode code, std::string_view why) {
    v1::ToAttention message = TestGateway::Submit(7, {5, 6}, 4);
    change(*message.mutable_submit());
    gateway->Send(message);
    const v1::Rejected got = AwaitRejected(*gateway);
    EXPECT_EQ(got.request_id(), 7u);
    EXPECT_EQ(got.attempt(), 1u);
    EXPECT_EQ(got.code(), static_cast<uint32_t>(code)) << got.message();
    EXPECT_TRUE(Contains(got.message(), why)) << got.message();
  };
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  using Submit = v1::Submit;
  rejected([](Submit& s) { s.clear_prompt_tokens(); }, kInvalid, "empty");
  rejected([](Submit& s) { s.add_prompt_tokens(512); }, kInvalid, "token id 512 of the prompt");
  rejected([](Submit& s) { s.add_prompt_tokens(UINT32_MAX); }, kInvalid, "vocabulary");
  rejected([](Submit& s) { s.mutable_prompt_tokens()->Resize(1024, 5); }, kInvalid, "at most 1023");
  rejected([](Submit& s) { s.mutable_stop_tokens()->Resize(5000, 5); }, kInvalid, "stop_tokens");
  rejected([](Submit& s) { s.set_max_tokens(0); }, kInvalid, "max_tokens");
  rejected([](Submit& s) { s.mutable_sampling()->set_temperature(-1); }, kInvalid, "temperature");
  rejected([](Submit& s) { s.mutable_sampling()->set_top_p(2); }, kInvalid, "top_p");
  rejected([](Submit& s) { s.set_logprobs(99); }, kInvalid, "logprobs");
  rejected([](Submit& s) { s.set_prompt_logprobs(99); }, kInvalid, "prompt_logprobs");
  rejected([](Submit& s) { s.mutable_sampling()->set_min_p(2); }, kInvalid, "min_p");
  rejected([](Submit& s) { s.mutable_sampling()->set_frequency_penalty(NAN); }, kInvalid,
           "frequency_penalty");
  rejected([](Submit& s) { s.mutable_sampling()->set_repetition_penalty(-1); }, kInvalid,
           "repetition_penalty");
  rejected([](Submit& s) { s.mutable_sampling()->set_min_tokens(UINT32_MAX); }, kInvalid,
           "min_tokens");
  rejected([](Submit& s) { s.mutable_sampling()->add_logit_bias()->set_token(512); }, kInvalid,
           "logit_bias");
  rejected(
      [](Submit& s) {
        for (int i = 0; i < 2; ++i) s.mutable_sampling()->add_logit_bias()->set_token(3);
      },
      kInvalid, "listed twice");
  rejected([](Submit& s) { s.set_traceparent(std::string(300, 'x')); }, kInvalid, "id for logs");
  rejected([](Submit& s) { s.add_generated_tokens(600); }, kInvalid, "generated tokens");
  rejected([](Submit& s) { s.set_want_logits_hash(true); }, kInvalid, "--debug-logits-hash");
}

TEST_F(TokensTest, AnErrorFoundBeforeTheFirstStepCarriesItsMeaning) {
  service_.room().kv_bytes = 64 << 10;  // a few pages
  Serve();
  const auto gateway = Attach();
  gateway->Send(TestGateway::Submit(1, {5, 6}, 1000));
  const v1::RequestTokens got = gateway->ReadToTheEnd(1);
  EXPECT_EQ(got.finish_reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(got.error_code(), static_cast<uint32_t>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_TRUE(Contains(got.error(), "kvCache.size"));
}

TEST_F(TokensTest, GoesOnBehindTheTokensOfAReplayWithTheSameLogits) {
  service_.config().set_debug_logits_hash(true);
  Serve();
  const auto gateway = Attach();
  v1::ToAttention submit = TestGateway::Submit(1, {5, 6, 7}, 12);
  submit.mutable_submit()->set_want_logits_hash(true);
  submit.mutable_submit()->mutable_sampling()->set_temperature(1.0f);
  submit.mutable_submit()->mutable_sampling()->set_seed(3);
  gateway->Send(submit);
  const v1::RequestTokens whole = gateway->ReadToTheEnd(1);
  ASSERT_EQ(whole.tokens_size(), 12);
  ASSERT_EQ(whole.logits_hashes_size(), 12);
  submit.mutable_submit()->set_request_id(2);
  submit.mutable_submit()->set_attempt(2);
  for (int i = 0; i < 5; ++i) submit.mutable_submit()->add_generated_tokens(whole.tokens(i));
  gateway->Send(submit);
  const v1::RequestTokens rest = gateway->ReadToTheEnd(2);
  ASSERT_EQ(rest.tokens_size(), 7) << "max_tokens counts what was given";
  EXPECT_EQ(rest.attempt(), 2u);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(rest.tokens(i), whole.tokens(5 + i));
    EXPECT_EQ(rest.logits_hashes(i), whole.logits_hashes(5 + i));
  }
}

TEST_F(TokensTest, TheEndOfAStreamEndsItsRequests) {
  Serve();
  {
    const auto gateway = Attach();
    gateway->Send(TestGateway::Submit(1, {5}, 1000));
    ASSERT_TRUE(gateway->Read().has_step());
  }
  EXPECT_TRUE(service_.attention()
                  .worker()
                  .Drain({kUid, ServiceUnderTest::kFence, 1},
                         MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                         [] { return true; })
                  .ok());
}

}  // namespace
}  // namespace janus::dataplane
