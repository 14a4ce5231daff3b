#include "dataplane/gateway/token_messages.h"

#include <gtest/gtest.h>

namespace janus::gateway {
namespace {

v1::FromAttention Welcome() {
  v1::FromAttention message;
  v1::Welcome& welcome = *message.mutable_welcome();
  welcome.set_instance("attention-0");
  welcome.set_vocabulary_size(512);
  welcome.set_max_context_tokens(1024);
  welcome.set_max_requests(8);
  welcome.set_kv_capacity_tokens(4096);
  welcome.set_kv_tokens_in_use(16);
  welcome.set_accepts_replay(true);
  welcome.set_accepts_counts(true);
  welcome.set_accepts_grammar(true);
  welcome.set_routed_layers(4);
  welcome.set_routed_top_k(2);
  welcome.set_model_digest("m");
  welcome.set_text_digest("t");
  return message;
}

v1::FromAttention StepOf(std::initializer_list<uint32_t> tokens) {
  v1::FromAttention message;
  v1::Step& step = *message.mutable_step();
  step.set_kv_tokens_in_use(20);
  step.set_keys(25);
  step.set_queued(2);
  step.set_running(3);
  step.set_timed_waits(40);
  step.set_timed_overruns(2);
  v1::RequestTokens& request = *step.add_requests();
  request.set_request_id(7);
  request.set_attempt(2);
  for (const uint32_t token : tokens) request.add_tokens(token);
  return message;
}

v1::RequestTokens& RequestOf(v1::FromAttention& message) {
  return *message.mutable_step()->mutable_requests(0);
}

std::string BreachOf(const v1::FromAttention& message) {
  const Result<AttentionEvents> events = ReadEvents(message, nullptr);
  if (events.ok()) return "none";
  EXPECT_EQ(events.status().code(), StatusCode::kInvalidArgument);
  return events.status().message();
}

const std::string kBreach = "the attention instance breaks the protocol: ";

TEST(TokenMessages, WelcomeTellsWhatTheInstanceHas) {
  const AttentionCapacity capacity = ReadWelcome(Welcome()).value();
  EXPECT_EQ(capacity.instance, "attention-0");
  EXPECT_EQ(capacity.vocabulary_size, 512);
  EXPECT_EQ(capacity.max_context_tokens, 1024);
  EXPECT_EQ(capacity.max_requests, 8);
  EXPECT_EQ(capacity.kv_capacity_tokens, 4096);
  EXPECT_EQ(capacity.kv_tokens_in_use, 16);
  EXPECT_TRUE(capacity.accepts_replay);
  EXPECT_TRUE(capacity.accepts_counts);
  EXPECT_TRUE(capacity.accepts_grammar);
  EXPECT_EQ(capacity.routed_width, 8);
  EXPECT_EQ(capacity.model_digest, "m");
  EXPECT_EQ(capacity.text_digest, "t");
}

TEST(TokenMessages, ADigestThatIsNoneIsRefused) {
  v1::FromAttention message = Welcome();
  message.mutable_welcome()->set_text_digest(std::string(257, 'x'));
  EXPECT_EQ(ReadWelcome(message).status().message(), kBreach + "a digest has 257 bytes");
}

TEST(TokenMessages, WelcomeOfAnInstanceThatServesNothingIsRefusedByField) {
  v1::FromAttention message = Welcome();
  message.mutable_welcome()->set_vocabulary_size(0);
  EXPECT_EQ(ReadWelcome(message).status().message(), kBreach + "vocabulary_size is 0");
  message = Welcome();
  message.mutable_welcome()->set_kv_tokens_in_use(UINT64_MAX);
  EXPECT_EQ(ReadWelcome(message).status().message(),
            kBreach + "kv_tokens_in_use is 18446744073709551615");
  EXPECT_EQ(ReadWelcome(StepOf({})).status().message(),
            kBreach + "its first message is no welcome");
}

TEST(TokenMessages, ExpertsOfAnImpossibleModelAreRefused) {
  v1::FromAttention message = Welcome();
  message.mutable_welcome()->set_routed_layers(UINT32_MAX);
  EXPECT_EQ(ReadWelcome(message).status().message(),
            kBreach + "experts of 4294967295 layers, 2 in each");
}

TEST(TokenMessages, ExpertsAreNumbersOf16Bits) {
  v1::FromAttention message = StepOf({});
  RequestOf(message).set_routed_experts(std::string("\x01\x00\xff\xff\x00\x02", 6));
  RequestOf(message).set_routed_experts_from(3);
  const AttentionEvents events = ReadEvents(message, nullptr).value();
  EXPECT_EQ(events.requests[0].event.routed, (std::vector<uint16_t>{1, 65535, 512}));
  EXPECT_EQ(events.requests[0].event.routed_from, 3);
  RequestOf(message).set_routed_experts("odd");
  EXPECT_EQ(BreachOf(message), kBreach + "routed_experts has 3 bytes");
}

// The gateway has those of all positions before the last token that it got.
TEST(TokenMessages, AReplayAsksForTheExpertsThatAreMissing) {
  GenerationRequest request;
  request.prompt = {1, 2, 3, 4};
  EXPECT_EQ(SubmitMessage(1, 1, request, {}).submit().routed_experts(), 0u) << "none";
  request.routed_from = 2;
  const auto from = [&](const std::vector<int32_t>& generated) {
    return SubmitMessage(1, 1, request, generated).submit().routed_experts();
  };
  EXPECT_EQ(from({}), 3u) << "from position 2 on";
  EXPECT_EQ(from({5}), 5u) << "from position 4 on";
  EXPECT_EQ(from({5, 6, 7}), 7u);
}

TEST(TokenMessages, AStepTellsTokensAndLoad) {
  v1::FromAttention message = StepOf({5, 6});
  RequestOf(message).add_logits_hashes(11);
  RequestOf(message).add_logits_hashes(12);
  for (int i = 0; i < 2; ++i) {
    v1::PositionLogprobs& logprobs = *RequestOf(message).add_logprobs();
    logprobs.set_logprob(-0.5f);
    logprobs.add_top()->set_token(5);
  }
  RequestOf(message).set_finish_reason(v1::FINISH_REASON_STOP);
  const auto credit = std::make_shared<int>(1);
  const AttentionEvents events = ReadEvents(message, credit).value();
  ASSERT_EQ(events.requests.size(), 1u);
  const AttentionPool::RequestEvent& request = events.requests[0];
  EXPECT_EQ(request.id, 7u);
  EXPECT_EQ(request.attempt, 2u);
  EXPECT_EQ(request.event.tokens, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(request.event.logits_hashes, (std::vector<uint64_t>{11, 12}));
  ASSERT_EQ(request.event.logprobs.size(), 2u);
  EXPECT_EQ(request.event.logprobs[1].top[0].token, 5);
  EXPECT_EQ(request.event.finish, Finish::kStop);
  EXPECT_EQ(credit.use_count(), 2);
  ASSERT_TRUE(events.load);
  EXPECT_EQ(events.load->kv_tokens_in_use, 20);
  EXPECT_EQ(events.load->keys, 25);
  EXPECT_EQ(events.load->queued, 2);
  EXPECT_EQ(events.load->running, 3);
  EXPECT_EQ(events.load->timed_waits, 40u);
  EXPECT_EQ(events.load->timed_overruns, 2u);
}

TEST(TokenMessages, AnOlderWorkerCountsNoSharedKeys) {
  v1::FromAttention message = StepOf({5});
  message.mutable_step()->clear_keys();
  EXPECT_EQ(ReadEvents(message, nullptr).value().load->keys, 20);
}

TEST(TokenMessages, AnAnswerThatItsGrammarCompletesKeepsItsLastToken) {
  v1::FromAttention message = StepOf({5});
  RequestOf(message).set_finish_reason(v1::FINISH_REASON_COMPLETE);
  const TokenEvent event = ReadEvents(message, nullptr).value().requests.at(0).event;
  EXPECT_EQ(event.finish, Finish::kStop);
  EXPECT_TRUE(event.is_complete);
  GenerationRequest request;
  EXPECT_EQ(SubmitMessage(1, 1, request, {}).submit().grammar(), "");
  request.grammar = std::make_shared<const std::string>("{}");
  EXPECT_EQ(SubmitMessage(1, 1, request, {}).submit().grammar(), "{}");
}

TEST(TokenMessages, WhatCanBeTriedElsewhereIsShedAndAnythingElseEndsTheRequest) {
  for (const auto& [code, shed] :
       {std::pair(StatusCode::kResourceExhausted, true), std::pair(StatusCode::kUnavailable, true),
        std::pair(StatusCode::kInvalidArgument, false), std::pair(StatusCode::kOk, false)}) {
    v1::FromAttention failed = StepOf({});
    RequestOf(failed).set_finish_reason(v1::FINISH_REASON_ERROR);
    RequestOf(failed).set_error_code(static_cast<uint32_t>(code));
    RequestOf(failed).set_error("why");
    v1::FromAttention rejected;
    rejected.mutable_rejected()->set_code(static_cast<uint32_t>(code));
    rejected.mutable_rejected()->set_message("why");
    for (const v1::FromAttention& message : {failed, rejected}) {
      const AttentionPool::RequestEvent event = ReadEvents(message, nullptr).value().requests.at(0);
      EXPECT_EQ(event.shed, shed) << ToString(code);
      EXPECT_EQ(event.event.finish, shed ? Finish::kNone : Finish::kError) << ToString(code);
      EXPECT_EQ(event.event.error.message(), "why");
    }
  }
}

TEST(TokenMessages, NamesTheFieldThatBreaksTheProtocol) {
  EXPECT_EQ(BreachOf({}), kBreach + "a message that is neither a step nor a refusal");
  EXPECT_EQ(BreachOf(Welcome()), kBreach + "a message that is neither a step nor a refusal");
  EXPECT_EQ(BreachOf(StepOf({UINT32_MAX})), kBreach + "a token's id is 4294967295");
  v1::FromAttention message = StepOf({1, 2});
  RequestOf(message).add_logits_hashes(1);
  EXPECT_EQ(BreachOf(message), kBreach + "1 logits_hashes for 2 tokens");
  message = StepOf({});
  RequestOf(message).add_logprobs();
  EXPECT_EQ(BreachOf(message), kBreach + "1 logprobs for 0 tokens");
  message = StepOf({1});
  RequestOf(message).add_logprobs()->add_top()->set_token(1u << 31);
  EXPECT_EQ(BreachOf(message), kBreach + "the id of a token in logprobs is 2147483648");
  message = StepOf({});
  RequestOf(message).set_finish_reason(v1::FINISH_REASON_STOP);
  EXPECT_EQ(BreachOf(message), kBreach + "a stop without the token that stopped it");
  RequestOf(message).set_finish_reason(static_cast<v1::FinishReason>(9));
  EXPECT_EQ(BreachOf(message), kBreach + "finish_reason is 9");
  message = StepOf({1});
  message.mutable_step()->set_kv_tokens_in_use(UINT64_MAX);
  EXPECT_EQ(BreachOf(message), kBreach + "kv_tokens_in_use is 18446744073709551615");
}

TEST(TokenMessages, ASubmitCarriesTheWholeRequest) {
  const GenerationRequest request{.prompt = {3, 4},
                                  .max_tokens = 9,
                                  .temperature = 0.5,
                                  .top_k = 2,
                                  .top_p = 0.75,
                                  .seed = 77,
                                  .stop_tokens = {1},
                                  .ignore_eos = true,
                                  .logprobs = 2,
                                  .want_logits_hash = true};
  const std::vector<int32_t> generated = {8};
  const v1::Submit submit = SubmitMessage(5, 6, request, generated).submit();
  EXPECT_EQ(submit.request_id(), 5u);
  EXPECT_EQ(submit.attempt(), 6u);
  EXPECT_EQ(submit.prompt_tokens(1), 4u);
  EXPECT_EQ(submit.max_tokens(), 9u);
  EXPECT_EQ(submit.sampling().temperature(), 0.5f);
  EXPECT_EQ(submit.sampling().top_k(), 2u);
  EXPECT_EQ(submit.sampling().top_p(), 0.75f);
  EXPECT_EQ(submit.sampling().seed(), 77u);
  EXPECT_EQ(submit.stop_tokens(0), 1u);
  EXPECT_TRUE(submit.ignore_eos());
  EXPECT_EQ(submit.logprobs(), 3u);
  EXPECT_TRUE(submit.want_logits_hash());
  EXPECT_EQ(submit.generated_tokens(0), 8u);
}

}  // namespace
}  // namespace janus::gateway
