#include "dataplane/gateway/attention_pool.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_link.h"

namespace janus::gateway {
namespace {

class RecordingSink final : public TokenSink {
 public:
  void OnTokens(TokenEvent event) override {
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.finish != Finish::kNone) {
      ++ends;
      finish = event.finish;
      error = event.error;
    }
  }
  std::vector<int32_t> tokens;
  Finish finish = Finish::kNone;
  Status error;
  int ends = 0;
};

class AttentionPoolTest : public testing::Test {
 protected:
  explicit AttentionPoolTest(Seconds hold = Seconds(0))
      : metrics_(registry_, "m"),
        pool_({.queued_requests = 2, .hold = hold, .text_digest = "text"}, clock_, metrics_,
              Logger(2, LogLevel::kError),
              [this](const AttentionLink::Options&, AttentionPool* pool, const Logger&) {
                auto link = std::make_shared<FakeLink>(pool);
                links_.push_back(link);
                return link;
              }) {
    pool_.SetMembers({"a", "b"});
  }

  void Up(int link, int64_t max_requests = 100, bool replay = false, int64_t kv_in_use = 0,
          int64_t context = 64) {
    pool_.OnUp(links_.at(link).get(), {.instance = "x",
                                       .vocabulary_size = 100,
                                       .max_context_tokens = context,
                                       .max_requests = max_requests,
                                       .kv_capacity_tokens = 1000,
                                       .kv_tokens_in_use = kv_in_use,
                                       .accepts_replay = replay});
  }
  void UpWith(int link, const std::string& model, const std::string& text = "text") {
    pool_.OnUp(links_.at(link).get(), {.instance = "x",
                                       .vocabulary_size = 100,
                                       .max_context_tokens = 64,
                                       .max_requests = 100,
                                       .kv_capacity_tokens = 1000,
                                       .accepts_replay = true,
                                       .model_digest = model,
                                       .text_digest = text});
  }
  void Down(int link) { pool_.OnDown(links_.at(link).get(), Unavailable("gone")); }

  std::shared_ptr<RecordingSink> Submit(int64_t prompt_tokens = 4, uint64_t* id = nullptr) {
    auto sink = std::make_shared<RecordingSink>();
    GenerationRequest request;
    request.prompt.assign(static_cast<size_t>(prompt_tokens), 1);
    request.seed = 99;
    request.max_tokens = 8;
    last_ = pool_.Submit(std::move(request), sink);
    if (id != nullptr && last_.ok()) *id = *last_;
    return sink;
  }
  void Step(int link, uint64_t id, uint32_t attempt, std::vector<int32_t> tokens,
            Finish finish = Finish::kNone, int64_t kv_in_use = 0) {
    AttentionPool::RequestEvent event{.id = id, .attempt = attempt};
    event.event.tokens = std::move(tokens);
    event.event.finish = finish;
    pool_.OnStep(links_.at(link).get(), {event},
                 AttentionLoad{.kv_tokens_in_use = kv_in_use, .keys = kv_in_use});
  }
  void Shed(int link, uint64_t id, uint32_t attempt) {
    AttentionPool::RequestEvent event{.id = id, .attempt = attempt};
    event.shed = true;
    event.event.error = ResourceExhausted("the instance is full");
    pool_.OnStep(links_.at(link).get(), {event}, std::nullopt);
  }
  void GiveUp(int link, uint64_t id, uint32_t attempt) {
    AttentionPool::RequestEvent event{.id = id, .attempt = attempt};
    event.shed = event.left = true;
    event.event.error = Unavailable("the attention instance gave the request up");
    pool_.OnStep(links_.at(link).get(), {event}, std::nullopt);
  }
  size_t Sent(int link) const { return links_.at(link)->submitted.size(); }

  FakeClock clock_;
  MetricRegistry registry_;
  GatewayMetrics metrics_;
  std::vector<std::shared_ptr<FakeLink>> links_;  // including those that the pool has removed
  Result<uint64_t> last_ = Unavailable("nothing was submitted");
  AttentionPool pool_;
};

TEST_F(AttentionPoolTest, RefusesWithoutAnInstance) {
  Submit();
  EXPECT_EQ(last_.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(pool_.HasInstance());
}

TEST_F(AttentionPoolTest, CountsReportedTokensAndPromptsWithoutATokenYet) {
  Up(0, 100, false, 10);
  Up(1);
  uint64_t first = 0;
  Submit(8, &first);  // 10 : 0
  Submit(8);          // 10 : 8
  Submit(8);          // 10 : 16
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_EQ(Sent(1), 2u);
  // The instance's report now includes the prompt, so the pool no longer adds it.
  Step(1, first, 1, {5}, Finish::kNone, 9);  // 18 : 9 + 8
  Submit(1);
  EXPECT_EQ(Sent(1), 3u);
}

// Both instances have room for long prompts.
class PrefixesTest : public AttentionPoolTest {
 protected:
  static constexpr int kBlock = KnownPrefixes::kBlockTokens;
  PrefixesTest() {
    Up(0, 100, false, 0, 10'000);
    Up(1, 100, false, 0, 10'000);
  }
  // A prompt of so many blocks of token `value`, answered with `answer`; returns its instance.
  int Ask(int blocks, int32_t value, std::vector<int32_t> answer = {7}) {
    const size_t before = Sent(0);
    GenerationRequest request;
    request.prompt.assign(static_cast<size_t>(blocks * kBlock), value);
    request.max_tokens = 1000;
    const Result<uint64_t> id = pool_.Submit(std::move(request), std::make_shared<RecordingSink>());
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    const int link = Sent(0) > before ? 0 : 1;
    Step(link, *id, 1, std::move(answer), Finish::kStop, in_use_[link]);
    return link;
  }
  void InUse(int link, int64_t tokens) {
    in_use_[link] = tokens;
    pool_.OnStep(links_.at(static_cast<size_t>(link)).get(), {},
                 AttentionLoad{.kv_tokens_in_use = tokens, .keys = tokens});
  }
  int64_t in_use_[2] = {0, 0};
};

TEST_F(PrefixesTest, APromptGoesWhereItsBeginningWasComputed) {
  InUse(0, 10);
  EXPECT_EQ(Ask(3, 1), 1);
  InUse(0, 0);
  InUse(1, 100);
  EXPECT_EQ(Ask(4, 1), 1) << "three blocks are known there";
  EXPECT_EQ(Ask(4, 2), 0) << "an unknown prompt goes where less is in use";
}

TEST_F(PrefixesTest, ALoadedInstanceKeepsAPromptOnlyAsFarAsThePrefixSavesWork) {
  InUse(0, 10);
  EXPECT_EQ(Ask(3, 1), 1);
  InUse(1, 10 + 3 * kBlock + 1);
  EXPECT_EQ(Ask(3, 1), 0) << "the other has more to do by more than the prefix";
  InUse(0, 10 + 3 * kBlock + 2);
  EXPECT_EQ(Ask(3, 1), 1) << "now both know it";
}

TEST_F(PrefixesTest, TheNextTurnFollowsTheAnswer) {
  InUse(0, 10);
  EXPECT_EQ(Ask(1, 1, std::vector<int32_t>(kBlock, 1)), 1);
  InUse(1, 10 + kBlock + 1);
  EXPECT_EQ(Ask(3, 1), 1) << "prompt and answer are two blocks";
}

TEST_F(PrefixesTest, AnInstanceThatWasLostKnowsNothingAnyMore) {
  InUse(0, 10);
  EXPECT_EQ(Ask(3, 1), 1);
  Down(1);
  Up(1, 100, false, 0, 10'000);
  InUse(0, 0);
  EXPECT_EQ(Ask(3, 1), 0);
}

TEST_F(AttentionPoolTest, BreaksTiesByTheOrderOfTheList) {
  Up(1);
  Up(0);
  Submit();
  EXPECT_EQ(Sent(0), 1u);
}

// An instance has a queue too, and an autoscaler must see what waits there.
TEST_F(AttentionPoolTest, ARequestWaitsUntilItsFirstToken) {
  Up(0, 4);
  uint64_t first = 0, second = 0;
  Submit(4, &first);
  Submit(4, &second);
  EXPECT_EQ(Sent(0), 2u);
  EXPECT_EQ(metrics_.waiting.value(), 2);
  EXPECT_EQ(metrics_.running.value(), 0);
  Step(0, first, 1, {7});
  EXPECT_EQ(metrics_.waiting.value(), 1);
  EXPECT_EQ(metrics_.running.value(), 1);
  Step(0, first, 1, {8});
  EXPECT_EQ(metrics_.running.value(), 1);
  pool_.Cancel(second);
  EXPECT_EQ(metrics_.waiting.value(), 0);
  Step(0, first, 1, {9}, Finish::kStop);
  EXPECT_EQ(metrics_.running.value(), 0);
  Submit(4);
  Down(0);
  EXPECT_EQ(metrics_.running.value(), 0);
}

TEST_F(AttentionPoolTest, WhoIsRefusedWaitsForAsLongAsTheQueueTakes) {
  Up(0, 1);
  const auto answers_every = [&](Seconds interval) {
    for (int i = 0; i < 150; ++i) {
      uint64_t id = 0;
      Submit(4, &id);
      clock_.Advance(interval);
      Step(0, id, 1, {7}, Finish::kStop);
    }
  };
  EXPECT_EQ(pool_.RetryAfterSeconds(), 1);
  answers_every(Seconds(9.9));
  EXPECT_EQ(pool_.RetryAfterSeconds(), 1) << "nothing waits";
  for (int i = 0; i < 3; ++i) Submit();
  EXPECT_EQ(pool_.RetryAfterSeconds(), 20) << "two wait";
}

TEST_F(AttentionPoolTest, QueuesInOrderUpToABound) {
  Up(0, 1);
  uint64_t running = 0, second = 0, third = 0;
  Submit(4, &running);
  Submit(4, &second);
  Submit(4, &third);
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_EQ(metrics_.waiting.value(), 3);
  EXPECT_EQ(metrics_.queue_limit.value(), 2);
  Submit();
  EXPECT_EQ(last_.status().code(), StatusCode::kResourceExhausted);
  Step(0, running, 1, {7}, Finish::kStop);
  ASSERT_EQ(Sent(0), 2u);
  EXPECT_EQ(links_[0]->submitted[1].id, second);
  pool_.Cancel(second);
  EXPECT_EQ(links_[0]->cancelled, (std::vector<std::pair<uint64_t, uint32_t>>{{second, 1}}));
  ASSERT_EQ(Sent(0), 3u);
  EXPECT_EQ(links_[0]->submitted[2].id, third);
}

TEST_F(AttentionPoolTest, CancelsWhatWaitsWithoutAWord) {
  Up(0, 1);
  uint64_t running = 0, waiting = 0;
  Submit(4, &running);
  Submit(4, &waiting);
  pool_.Cancel(waiting);
  Step(0, running, 1, {7}, Finish::kStop);
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_TRUE(links_[0]->cancelled.empty());
}

TEST_F(AttentionPoolTest, MovesARequestWithoutTokensUnderTheNextAttempt) {
  Up(0);
  Up(1);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Down(0);
  ASSERT_EQ(Sent(1), 1u);
  EXPECT_EQ(links_[1]->submitted[0].attempt, 2u);
  EXPECT_EQ(links_[1]->submitted[0].seed, 99u);
  EXPECT_EQ(sink->ends, 0);
}

TEST_F(AttentionPoolTest, DropsTokensOfAStaleAttempt) {
  Up(0);
  Up(1);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Down(0);
  Up(0);
  Step(0, id, 1, {5}, Finish::kStop);  // the instance that counted as lost sends again
  Step(1, id, 1, {6});
  Step(0, id, 2, {6});
  EXPECT_TRUE(sink->tokens.empty());
  EXPECT_EQ(metrics_.stale_dropped.value(), 3u);
  Step(1, id, 2, {7}, Finish::kStop);
  EXPECT_EQ(sink->tokens, (std::vector<int32_t>{7}));
  EXPECT_EQ(sink->ends, 1);
}

TEST_F(AttentionPoolTest, EndsARequestWhoseInstanceSendsMoreThanItAskedFor) {
  Up(0);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {1, 2, 3, 4, 5});
  Step(0, id, 1, {6, 7, 8, 9});
  EXPECT_EQ(sink->tokens, (std::vector<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(sink->finish, Finish::kError);
  EXPECT_EQ(sink->error.message(),
            "the attention instance sent 9 tokens of an answer of at most 8");
  EXPECT_EQ(links_[0]->cancelled, (std::vector<std::pair<uint64_t, uint32_t>>{{id, 1}}));
}

TEST_F(AttentionPoolTest, EndsARequestWhoseInstanceSendsATokenBeyondItsVocabulary) {
  Up(0);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {100});
  EXPECT_TRUE(sink->tokens.empty());
  EXPECT_EQ(sink->error.message(), "the attention instance sent token 100 of a vocabulary of 100");
}

TEST_F(AttentionPoolTest, EndsARequestWhoseInstanceSendsExpertsThatWereNotAskedFor) {
  // Prompt and answer of 12 tokens have experts at the positions 1..10, in twos.
  const auto fails = [&](int64_t wanted, int64_t from, size_t ids) {
    auto sink = std::make_shared<RecordingSink>();
    GenerationRequest request;
    request.prompt.assign(4, 1);
    request.max_tokens = 8;
    request.routed_from = wanted;
    request.routed_width = wanted < 0 ? 0 : 2;
    const Result<uint64_t> id = pool_.Submit(std::move(request), sink);
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    AttentionPool::RequestEvent event{.id = *id, .attempt = 1};
    event.event.routed.assign(ids, 3);
    event.event.routed_from = from;
    pool_.OnStep(links_.at(0).get(), {event}, AttentionLoad{});
    return sink->finish == Finish::kError;
  };
  pool_.OnUp(links_.at(0).get(), {.instance = "x",
                                  .vocabulary_size = 100,
                                  .max_context_tokens = 64,
                                  .max_requests = 100,
                                  .kv_capacity_tokens = 1000,
                                  .routed_width = 2});
  EXPECT_FALSE(fails(1, 1, 20));
  EXPECT_FALSE(fails(1, 10, 2));
  EXPECT_TRUE(fails(1, 0, 2)) << "before what was asked for";
  EXPECT_TRUE(fails(1, 1, 22)) << "of the last token";
  EXPECT_TRUE(fails(1, 1, 3)) << "half a position";
  EXPECT_TRUE(fails(-1, 1, 2)) << "of a request without";
}

TEST_F(AttentionPoolTest, RefusesExpertsWhereInstancesDoNotReportThem) {
  Up(0);
  GenerationRequest request;
  request.prompt.assign(4, 1);
  request.routed_from = 0;
  request.routed_width = 2;
  const Result<uint64_t> id = pool_.Submit(std::move(request), std::make_shared<RecordingSink>());
  EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(id.status().message(), "return_routed_experts"));
}

TEST_F(AttentionPoolTest, ReplaysTokensOnlyWhereTheyAreAccepted) {
  Up(0);
  Up(1, 100, true);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {5, 6});
  Down(0);
  ASSERT_EQ(Sent(1), 1u);
  EXPECT_EQ(links_[1]->submitted[0].generated, (std::vector<int32_t>{5, 6}));
  Step(1, id, 2, {7}, Finish::kLength);
  EXPECT_EQ(sink->tokens, (std::vector<int32_t>{5, 6, 7}));
}

TEST_F(AttentionPoolTest, EndsWhatCannotBeReplayed) {
  Up(0);
  Up(1, 100, false);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {5});
  Down(0);
  EXPECT_EQ(Sent(1), 0u);
  EXPECT_EQ(sink->finish, Finish::kError);
  EXPECT_EQ(sink->error.code(), StatusCode::kAborted);
  EXPECT_TRUE(Contains(sink->error.message(), "was lost"));
  EXPECT_EQ(sink->ends, 1);
}

TEST_F(AttentionPoolTest, EndsWhatWaitsWhenTheLastInstanceGoes) {
  Up(0, 1);
  const auto running = Submit();
  const auto waiting = Submit();
  Down(0);
  EXPECT_EQ(running->ends, 1);
  EXPECT_EQ(waiting->ends, 1);
  EXPECT_EQ(metrics_.waiting.value(), 0);
}

TEST_F(AttentionPoolTest, KeepsTheOrderOfArrivalThroughALoss) {
  Up(0);
  Up(1, 1);
  std::vector<uint64_t> ids(3);
  Submit(1, &ids[0]);  // on a
  Submit(1, &ids[1]);  // on b, which is full then
  Submit(1, &ids[2]);  // on a
  Down(0);
  Step(1, ids[1], 1, {5}, Finish::kStop);
  Step(1, ids[0], 2, {5}, Finish::kStop);
  ASSERT_EQ(Sent(1), 3u);
  EXPECT_EQ(links_[1]->submitted[1].id, ids[0]);
  EXPECT_EQ(links_[1]->submitted[2].id, ids[2]);
}

TEST_F(AttentionPoolTest, GivesAShedRequestToAnother) {
  Up(0);
  Up(1);
  uint64_t id = 0;
  Submit(4, &id);
  Shed(0, id, 1);
  ASSERT_EQ(Sent(1), 1u);
  EXPECT_EQ(links_[1]->submitted[0].attempt, 2u);
}

TEST_F(AttentionPoolTest, WaitsForAFullInstanceUntilOneOfItsRequestsEnds) {
  Up(0);
  uint64_t running = 0, shed = 0;
  Submit(4, &running);
  const auto sink = Submit(4, &shed);
  Shed(0, shed, 1);
  EXPECT_EQ(Sent(0), 2u);  // not tried again at once
  EXPECT_EQ(sink->ends, 0);
  Step(0, running, 1, {5}, Finish::kStop);
  ASSERT_EQ(Sent(0), 3u);
  EXPECT_EQ(links_[0]->submitted[2].attempt, 2u);
}

TEST_F(AttentionPoolTest, PassesOnThatTheOnlyInstanceIsFullOfOthersRequests) {
  Up(0);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Shed(0, id, 1);
  EXPECT_EQ(sink->error.code(), StatusCode::kResourceExhausted);
}

TEST_F(AttentionPoolTest, RefusesWhatFitsNowhere) {
  Up(0);
  Submit(64);  // the context is 64 tokens, including the answer
  EXPECT_EQ(last_.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(last_.status().message(), "64 tokens"));
}

TEST_F(AttentionPoolTest, GivesALeavingMemberNothingNewAndLetsItFinish) {
  Up(0);
  Up(1);
  uint64_t first = 0, second = 0;
  const auto streams = Submit(4, &first);
  const auto waits = Submit(4, &second);  // on b
  Step(1, second, 1, {5}, Finish::kStop);
  pool_.SetMembers({"b"});
  EXPECT_EQ(links_[0]->stopped, 0);
  Step(0, first, 1, {5, 6});
  Submit();
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_EQ(Sent(1), 2u);
  Step(0, first, 1, {7}, Finish::kStop);
  EXPECT_EQ(streams->tokens, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(streams->finish, Finish::kStop);
  EXPECT_EQ(links_[0]->closed, 1);
  pool_.SetMembers({"b", "c"});
  EXPECT_EQ(links_[0]->stopped, 1);
  EXPECT_EQ(links_.size(), 3u);
}

TEST_F(AttentionPoolTest, LetsAnIdleMemberGoAtOnce) {
  Up(0);
  Up(1);
  pool_.SetMembers({"b"});
  EXPECT_EQ(links_[0]->stopped, 1);
  EXPECT_EQ(metrics_.instances.value(), 1);
}

TEST_F(AttentionPoolTest, KeepsAMemberThatComesBackBeforeItHasLeft) {
  Up(0);
  uint64_t id = 0;
  Submit(4, &id);
  pool_.SetMembers({"b"});
  EXPECT_FALSE(pool_.HasInstance());
  pool_.SetMembers({"a", "b"});
  EXPECT_TRUE(pool_.HasInstance());
  EXPECT_EQ(links_.size(), 2u);
  Step(0, id, 1, {5}, Finish::kStop);
  EXPECT_EQ(links_[0]->closed, 0);
}

TEST_F(AttentionPoolTest, DialsAnewAMemberThatComesBackAfterItHasLeft) {
  Up(0);
  uint64_t id = 0;
  Submit(4, &id);
  pool_.SetMembers({"b"});
  Step(0, id, 1, {5}, Finish::kStop);
  pool_.SetMembers({"a", "b"});
  EXPECT_EQ(links_[0]->stopped, 1);
  ASSERT_EQ(links_.size(), 3u);
  Up(2);
  EXPECT_TRUE(pool_.HasInstance());
}

TEST_F(AttentionPoolTest, MovesTheRequestsOfALeavingMemberThatIsLost) {
  Up(0);
  Up(1);
  Submit();
  pool_.SetMembers({"b"});
  Down(0);
  ASSERT_EQ(Sent(1), 1u);
  EXPECT_EQ(links_[1]->submitted[0].attempt, 2u);
  EXPECT_EQ(links_[0]->closed, 1) << "it would be dialled for ever";
}

TEST_F(AttentionPoolTest, MovesTheRequestsOfALeavingMemberThatSendsNothing) {
  Up(0, 100, true);
  Up(1, 100, true);
  uint64_t first = 0, second = 0;
  const auto answer = Submit(4, &first);  // on a
  Submit(4, &second);                     // on b
  Step(0, first, 1, {5, 6});
  clock_.Advance(AttentionPool::kSilentLeaver);
  // A listed member may be silent: its step may be long.
  pool_.MoveFromSilent();
  EXPECT_EQ(Sent(1), 1u);
  pool_.SetMembers({"b"});
  ASSERT_EQ(Sent(1), 2u);
  EXPECT_EQ(links_[1]->submitted[1].id, first);
  EXPECT_EQ(links_[1]->submitted[1].attempt, 2u);
  EXPECT_EQ(links_[1]->submitted[1].generated, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(links_[0]->cancelled, (std::vector<std::pair<uint64_t, uint32_t>>{{first, 1}}));
  EXPECT_EQ(links_[0]->closed, 1);
  // It was only slow: its token comes from the other one.
  Step(0, first, 1, {7});
  Step(1, first, 2, {7}, Finish::kStop);
  EXPECT_EQ(answer->tokens, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(answer->ends, 1);
}

TEST_F(AttentionPoolTest, ALeavingMemberThatSendsKeepsItsRequestsUntilItIsSilent) {
  Up(0);
  Up(1);
  uint64_t first = 0;
  Submit(4, &first);
  clock_.Advance(AttentionPool::kSilentLeaver);
  Step(0, first, 1, {});
  pool_.SetMembers({"b"});
  EXPECT_EQ(Sent(1), 0u);
  clock_.Advance(AttentionPool::kSilentLeaver / 2);
  pool_.MoveFromSilent();
  EXPECT_EQ(Sent(1), 0u);
  clock_.Advance(AttentionPool::kSilentLeaver);
  pool_.MoveFromSilent();
  EXPECT_EQ(Sent(1), 1u);
}

TEST_F(AttentionPoolTest, MovesTheRequestsOfAMemberThatWaitsForAnEpoch) {
  Up(0, 100, true);
  Up(1, 100, true);
  uint64_t first = 0;
  const auto answer = Submit(4, &first);  // on a
  Step(0, first, 1, {5, 6});
  pool_.OnStep(links_[0].get(), {}, AttentionLoad{.holding = true});
  Submit();
  Submit();
  EXPECT_EQ(Sent(1), 2u) << "the other one has an epoch";
  EXPECT_EQ(Sent(0), 1u);
  clock_.Advance(AttentionPool::kHolding / 2);
  pool_.MoveFromSilent();
  EXPECT_EQ(Sent(1), 2u) << "the epoch may come soon";
  pool_.OnStep(links_[0].get(), {}, AttentionLoad{.holding = true});  // again
  clock_.Advance(AttentionPool::kHolding / 2);
  pool_.MoveFromSilent();
  ASSERT_EQ(Sent(1), 3u);
  EXPECT_EQ(links_[1]->submitted[2].id, first);
  EXPECT_EQ(links_[1]->submitted[2].attempt, 2u);
  EXPECT_EQ(links_[1]->submitted[2].generated, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(links_[0]->cancelled, (std::vector<std::pair<uint64_t, uint32_t>>{{first, 1}}));
  Step(1, first, 2, {7}, Finish::kStop);
  EXPECT_EQ(answer->tokens, (std::vector<int32_t>{5, 6, 7}));
  // With an epoch it gets requests again.
  pool_.OnStep(links_[0].get(), {}, AttentionLoad{});
  Submit();
  EXPECT_EQ(Sent(0), 2u);
}

TEST_F(AttentionPoolTest, MembersThatAllWaitForAnEpochKeepTheirRequests) {
  Up(0, 100, true);
  Up(1, 100, true);
  Submit();
  for (const auto& link : links_) pool_.OnStep(link.get(), {}, AttentionLoad{.holding = true});
  clock_.Advance(AttentionPool::kHolding);
  pool_.MoveFromSilent();
  EXPECT_EQ(Sent(0) + Sent(1), 1u);
  EXPECT_TRUE(links_[0]->cancelled.empty());
  Submit();
  EXPECT_EQ(Sent(0) + Sent(1), 2u) << "none is better";
}

// All instances of a pool wait for the same epoch. One has it a moment before the others.
TEST_F(AttentionPoolTest, RequestsDoNotMoveToAMemberThatHasItsEpochAMomentEarlier) {
  Up(0, 100, true);
  Up(1, 100, true);
  Submit();
  Submit();
  for (const auto& link : links_) pool_.OnStep(link.get(), {}, AttentionLoad{.holding = true});
  clock_.Advance(2 * AttentionPool::kHolding);
  pool_.OnStep(links_[0].get(), {}, AttentionLoad{});
  pool_.MoveFromSilent();
  EXPECT_TRUE(links_[1]->cancelled.empty());
  // It has an epoch, and the other one still has none: that is another pool.
  clock_.Advance(AttentionPool::kHolding);
  pool_.MoveFromSilent();
  EXPECT_EQ(links_[1]->cancelled.size(), 1u);
}

TEST_F(AttentionPoolTest, OnlyAsManyRequestsMoveAsOthersHaveRoomFor) {
  Up(0, 100, true);
  Up(1, 1, true);
  std::vector<uint64_t> ids(3);
  for (uint64_t& id : ids) Submit(4, &id);
  ASSERT_EQ(Sent(1), 1u);
  pool_.OnStep(links_[0].get(), {}, AttentionLoad{.holding = true});
  clock_.Advance(AttentionPool::kHolding);
  pool_.MoveFromSilent();
  EXPECT_TRUE(links_[0]->cancelled.empty()) << "the other one is full";
  Step(1, links_[1]->submitted[0].id, 1, {7}, Finish::kStop);
  pool_.MoveFromSilent();
  EXPECT_EQ(links_[0]->cancelled.size(), 1u);
  EXPECT_EQ(Sent(1), 2u);
}

TEST_F(AttentionPoolTest, AMemberThatAttachesWithoutAnEpochGetsNoRequests) {
  pool_.OnUp(links_[0].get(), {.instance = "x",
                               .vocabulary_size = 100,
                               .max_context_tokens = 64,
                               .max_requests = 100,
                               .kv_capacity_tokens = 1000,
                               .holding = true});
  Up(1);
  Submit();
  Submit();
  EXPECT_EQ(Sent(0), 0u);
  EXPECT_EQ(Sent(1), 2u);
}

TEST_F(AttentionPoolTest, ASilentLeaverKeepsWhatNoOtherCanContinue) {
  UpWith(0, "old");
  UpWith(1, "new");
  uint64_t begun = 0;
  const auto answer = Submit(4, &begun);
  Step(0, begun, 1, {5});
  clock_.Advance(AttentionPool::kSilentLeaver);
  pool_.SetMembers({"b"});
  EXPECT_EQ(Sent(1), 0u);
  Step(0, begun, 1, {6}, Finish::kStop);
  EXPECT_EQ(answer->finish, Finish::kStop);
}

TEST_F(AttentionPoolTest, WhatWaitsGoesToTheInstanceThatReplacesItsOwn) {
  Up(0, 1);
  uint64_t running = 0;
  Submit(4, &running);
  const auto waits = Submit();
  pool_.SetMembers({"c"});
  Step(0, running, 1, {5}, Finish::kStop);
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_EQ(waits->ends, 0);
  Up(2);
  EXPECT_EQ(Sent(2), 1u);
}

TEST_F(AttentionPoolTest, AnAnswerThatNobodyLeftHasRoomForEndsByItsLength) {
  Up(0, 100, true);
  Up(1, 100, true, 0, 7);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {5, 6});
  Down(0);
  ASSERT_EQ(Sent(1), 1u) << "six tokens and the next";
  Step(1, id, 2, {7});
  Up(0, 100, true, 0, 7);
  Down(1);
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_EQ(sink->finish, Finish::kLength);
  EXPECT_EQ(sink->ends, 1);
  EXPECT_EQ(sink->tokens, (std::vector<int32_t>{5, 6, 7}));
}

class HoldingPoolTest : public AttentionPoolTest {
 protected:
  HoldingPoolTest() : AttentionPoolTest(Seconds(60)) {}
};

TEST_F(HoldingPoolTest, WhatNobodyTakesWaitsForWhoeverComesBackIncluded) {
  Up(0, 100, true);
  uint64_t running = 0, fresh = 0;
  const auto sink = Submit(4, &running);
  Step(0, running, 1, {5, 6});
  Down(0);
  Submit(4, &fresh);
  EXPECT_TRUE(last_.ok()) << last_.status().ToString();
  EXPECT_TRUE(pool_.AdmitsRequests());
  EXPECT_FALSE(pool_.HasInstance());
  EXPECT_EQ(pool_.VocabularySize(), 100);
  clock_.Advance(Seconds(59));
  pool_.EndHeld();
  Up(0, 100, true);
  ASSERT_EQ(Sent(0), 3u);
  EXPECT_EQ(links_[0]->submitted[1].id, running) << "the older one first";
  EXPECT_EQ(links_[0]->submitted[1].attempt, 2u);
  EXPECT_EQ(links_[0]->submitted[1].generated, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(links_[0]->submitted[2].id, fresh);
  EXPECT_EQ(sink->ends, 0);
}

TEST_F(HoldingPoolTest, WhatIsHeldTooLongEndsAndWhatComesThenIsRefused) {
  Up(0, 100, true);
  const auto running = Submit();
  Down(0);
  const auto waiting = Submit();
  clock_.Advance(Seconds(61));
  pool_.EndHeld();
  for (const auto& sink : {running, waiting}) {
    EXPECT_EQ(sink->ends, 1);
    EXPECT_EQ(sink->error.code(), StatusCode::kUnavailable);
  }
  Submit();
  EXPECT_EQ(last_.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(pool_.AdmitsRequests());
  EXPECT_EQ(metrics_.waiting.value(), 0);
}

// New instances may have less room. Requests that do not fit them would wait for ever.
TEST_F(HoldingPoolTest, WhatWaitsAndFitsNobodyEndsOnceAllAreAttached) {
  Up(0, 100, true);
  Up(1, 100, true);
  uint64_t begun = 0;
  const auto answer = Submit(4, &begun);
  Step(0, begun, 1, {5, 6, 7, 8});
  Down(0);
  Down(1);
  const auto prompt = Submit(20);  // with the other one the queue is full
  ASSERT_TRUE(last_.ok());
  Up(1, 100, true, 0, 8);
  EXPECT_EQ(answer->ends + prompt->ends, 0) << "the other one may have room";
  Up(0, 100, true, 0, 8);
  EXPECT_EQ(answer->finish, Finish::kLength);
  EXPECT_EQ(prompt->finish, Finish::kError);
  EXPECT_EQ(prompt->error.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(prompt->error.message(), "20 tokens")) << prompt->error.message();
  Submit(2);
  EXPECT_TRUE(last_.ok()) << "nothing is in its way";
}

// An answer with text of two models belongs to neither.
TEST_F(HoldingPoolTest, AnAnswerEndsWhenAnotherModelServesAndWhatHasNotBegunIsServedByIt) {
  UpWith(0, "old");
  uint64_t begun = 0, fresh = 0;
  const auto answer = Submit(4, &begun);
  const auto prompt = Submit(4, &fresh);
  Step(0, begun, 1, {5, 6});
  Down(0);
  EXPECT_EQ(answer->ends, 0) << "the old model may come back";
  pool_.SetMembers({"c", "d"});
  UpWith(2, "new");  // the other one of the same epoch need not be awaited
  EXPECT_EQ(answer->finish, Finish::kError);
  EXPECT_EQ(answer->error.code(), StatusCode::kAborted);
  EXPECT_TRUE(Contains(answer->error.message(), "ask again")) << answer->error.message();
  EXPECT_EQ(answer->tokens, (std::vector<int32_t>{5, 6}));
  ASSERT_EQ(Sent(2), 1u);
  EXPECT_EQ(links_[2]->submitted[0].id, fresh);
  Step(2, fresh, 2, {7}, Finish::kStop);
  EXPECT_EQ(prompt->tokens, std::vector<int32_t>{7});
  EXPECT_EQ(prompt->finish, Finish::kStop);
}

TEST_F(HoldingPoolTest, AnAnswerGoesOnWhereverItsModelServes) {
  UpWith(0, "old");
  uint64_t begun = 0;
  const auto answer = Submit(4, &begun);
  Step(0, begun, 1, {5, 6});
  UpWith(1, "old");
  Down(0);
  EXPECT_EQ(answer->ends, 0);
  ASSERT_EQ(Sent(1), 1u);
  EXPECT_EQ(links_[1]->submitted[0].generated, (std::vector<int32_t>{5, 6}));
}

// The instance was replaced at the same address, and the old one gave the answer back.
TEST_F(HoldingPoolTest, AnAnswerGivenBackEndsAtOnceWhereOnlyAnotherModelServes) {
  UpWith(0, "old");
  uint64_t begun = 0;
  const auto answer = Submit(4, &begun);
  Step(0, begun, 1, {5});
  UpWith(1, "new");
  GiveUp(0, begun, 1);
  EXPECT_EQ(answer->finish, Finish::kError);
  EXPECT_EQ(answer->error.code(), StatusCode::kAborted);
  EXPECT_EQ(Sent(1), 0u);
}

// The same ids mean other words there.
TEST_F(HoldingPoolTest, WhoServesWithAnotherTokenizerIsGivenNothing) {
  UpWith(0, "old");
  const auto held = Submit();
  Down(0);
  UpWith(0, "new", "other text");
  EXPECT_EQ(Sent(0), 1u);
  EXPECT_FALSE(pool_.HasInstance());
  EXPECT_EQ(held->ends, 0) << "who has the right one may come back";
  clock_.Advance(Seconds(61));
  pool_.EndHeld();
  EXPECT_EQ(held->error.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(held->error.message(), "tokenizer")) << held->error.message();
  Down(0);
  UpWith(0, "old");
  EXPECT_TRUE(pool_.HasInstance());
}

TEST_F(HoldingPoolTest, NothingIsHeldBeforeAnInstanceWasAttached) {
  Submit();
  EXPECT_EQ(last_.status().code(), StatusCode::kUnavailable);
}

TEST_F(HoldingPoolTest, WhatCannotBeReplayedEndsAtOnce) {
  Up(0, 100, false);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {5});
  Down(0);
  EXPECT_EQ(sink->ends, 1);
  EXPECT_EQ(sink->error.code(), StatusCode::kAborted);
}

// Its epoch ended before the gateway learned of the next one.
TEST_F(HoldingPoolTest, WhatAnInstanceGivesBackGoesToItsSuccessorAndToItselfOnceItIsBack) {
  Up(0, 100, true);
  uint64_t id = 0;
  const auto sink = Submit(4, &id);
  Step(0, id, 1, {5});
  GiveUp(0, id, 1);
  EXPECT_EQ(sink->ends, 0);
  EXPECT_EQ(Sent(0), 1u) << "it said that it takes nothing";
  pool_.SetMembers({"c"});
  Up(2, 100, true);
  ASSERT_EQ(Sent(2), 1u);
  EXPECT_EQ(links_[2]->submitted[0].generated, std::vector<int32_t>{5});
  GiveUp(2, id, 2);
  pool_.SetMembers({"c"});  // a topology that lists it: it serves again
  ASSERT_EQ(Sent(2), 2u);
  Step(2, id, 3, {6}, Finish::kLength);
  EXPECT_EQ(sink->tokens, (std::vector<int32_t>{5, 6}));
}

class ReportingPoolTest : public AttentionPoolTest {
 protected:
  void UpThatCounts(int link, int64_t max_requests = 100) {
    pool_.OnUp(links_.at(link).get(), {.instance = "x",
                                       .vocabulary_size = 100,
                                       .max_context_tokens = 64,
                                       .max_requests = max_requests,
                                       .kv_capacity_tokens = 1000,
                                       .accepts_counts = true});
  }
  const std::vector<GatewayCounts>& Reports(int link) const { return links_.at(link)->reports; }
};

TEST_F(ReportingPoolTest, AnInstanceIsToldOnceItAttachesAndThenOnlyWhatIsNew) {
  clock_.Advance(Seconds(5));
  UpThatCounts(0);
  ASSERT_EQ(Reports(0).size(), 1U);
  EXPECT_EQ(Reports(0)[0].reports, 1U);
  EXPECT_EQ(Reports(0)[0].arrived, 0U) << "no traffic is told, too: it is not silence";
  EXPECT_NEAR(Reports(0)[0].age_seconds, 5, 1e-6);
  pool_.ReportCounts();
  EXPECT_EQ(Reports(0).size(), 1U);
  pool_.counts().Arrived(7);
  clock_.Advance(Seconds(1));
  pool_.ReportCounts();
  pool_.ReportCounts();
  ASSERT_EQ(Reports(0).size(), 2U);
  EXPECT_EQ(Reports(0)[1].reports, 2U);
  EXPECT_EQ(Reports(0)[1].arrived, 1U);
  EXPECT_NEAR(Reports(0)[1].age_seconds, 6, 1e-6);
}

TEST_F(ReportingPoolTest, AllInstancesAreToldTheSame) {
  UpThatCounts(0);
  pool_.counts().Arrived(7);
  UpThatCounts(1);
  ASSERT_EQ(Reports(1).size(), 1U);
  EXPECT_EQ(Reports(1)[0].arrived, 1U);
  pool_.counts().Failed();
  pool_.ReportCounts();
  EXPECT_EQ(Reports(0).back(), Reports(1).back());
  EXPECT_EQ(Reports(1).back().failed, 1U);
}

TEST_F(ReportingPoolTest, AStreamThatComesBackIsToldTheSameReportAgain) {
  UpThatCounts(0);
  pool_.counts().Arrived(7);
  pool_.ReportCounts();
  Down(0);
  UpThatCounts(0);
  EXPECT_EQ(Reports(0).size(), 3U);
  EXPECT_EQ(Reports(0)[2], Reports(0)[1]);
}

TEST_F(ReportingPoolTest, AnInstanceOfAnOlderVersionIsSentNothingItDoesNotKnow) {
  Up(0);
  pool_.counts().Arrived(7);
  pool_.ReportCounts();
  EXPECT_TRUE(Reports(0).empty());
}

TEST_F(ReportingPoolTest, WhatWaitsForAnInstanceIsTold) {
  UpThatCounts(0, 1);
  uint64_t first = 0;
  Submit(4, &first);
  Submit(5);
  clock_.Advance(Seconds(2));
  Submit(6);
  clock_.Advance(Seconds(1));
  pool_.ReportCounts();
  EXPECT_EQ(Reports(0).back().waiting, 2U);
  EXPECT_EQ(Reports(0).back().waiting_prompt_tokens, 11U);
  EXPECT_NEAR(Reports(0).back().oldest_waiting_seconds, 3, 1e-6);
  const size_t told = Reports(0).size();
  clock_.Advance(Seconds(1));
  pool_.ReportCounts();
  EXPECT_EQ(Reports(0).size(), told + 1) << "it waits longer";
  Step(0, first, 1, {5}, Finish::kLength);
  pool_.ReportCounts();
  EXPECT_EQ(Reports(0).back().waiting, 1U);
  EXPECT_NEAR(Reports(0).back().oldest_waiting_seconds, 2, 1e-6);
}

}  // namespace
}  // namespace janus::gateway
