#include "dataplane/gateway/answer.h"

#include <gtest/gtest.h>

#include "dataplane/gateway/echo.h"
#include "small_tokenizer.h"

namespace janus::gateway {
namespace {

// 0 "a", 1 " b", 5..8 the bytes of 😀, 10 <s>.
TokenEvent Event(std::vector<int32_t> tokens, Finish finish = Finish::kNone,
                 bool logprobs = false) {
  TokenEvent event;
  event.tokens = std::move(tokens);
  event.finish = finish;
  if (logprobs) {
    for (const int32_t token : event.tokens) event.logprobs.push_back({-0.5f, {{token, -0.5f}}});
  }
  return event;
}

class AnswerTest : public testing::Test {
 protected:
  Answer Make(std::vector<std::string> stop = {}, bool logprobs = false) {
    return Answer::Create(*tokenizer_, {.stop = std::move(stop), .want_logprobs = logprobs})
        .value();
  }
  std::shared_ptr<const text::Tokenizer> tokenizer_ = text::SmallTokenizer();
};

TEST_F(AnswerTest, LeavesTheStopTokenOutOfTheTextButCountsIt) {
  Answer answer = Make();
  EXPECT_EQ(answer.Push(Event({0, 1, 0}, Finish::kStop)).value().text, "a b");
  EXPECT_EQ(answer.finish(), Finish::kStop);
  EXPECT_EQ(answer.completion_tokens(), 3);
}

TEST_F(AnswerTest, KeepsTheTokenThatCompletesIt) {
  Answer answer = Make();
  TokenEvent event = Event({0, 0}, Finish::kStop);
  event.is_complete = true;
  EXPECT_EQ(answer.Push(event).value().text, "aa");
  EXPECT_EQ(answer.finish(), Finish::kStop);
}

TEST_F(AnswerTest, KeepsWhatEndsItInTheTextWhenTold) {
  const AnswerOptions options{.stop = {"b"}, .include_stop = true};
  Answer by_token = Answer::Create(*tokenizer_, options).value();
  EXPECT_EQ(by_token.Push(Event({0, 0}, Finish::kStop)).value().text, "aa");
  Answer by_string = Answer::Create(*tokenizer_, options).value();
  EXPECT_EQ(by_string.Push(Event({0, 1, 0})).value().text, "a b");
  EXPECT_TRUE(by_string.stopped_by_string());
}

TEST_F(AnswerTest, LooksForNoStopStringBeforeTheLeastTokens) {
  Answer answer = Answer::Create(*tokenizer_, {.stop = {"a"}, .min_tokens = 2}).value();
  EXPECT_EQ(answer.Push(Event({0, 0, 1, 0, 0})).value().text, "aa b");
  EXPECT_EQ(answer.completion_tokens(), 4);
}

TEST_F(AnswerTest, ScoresTheTokenThatEndsItWhenTold) {
  Answer answer = Answer::Create(*tokenizer_, {.want_logprobs = true, .scores_end = true}).value();
  const Answer::Delta delta = answer.Push(Event({0, 1}, Finish::kStop, true)).value();
  EXPECT_EQ(delta.text, "a");
  ASSERT_EQ(delta.tokens.size(), 2u);
  EXPECT_EQ(delta.tokens[1].text_offset, 1);
}

TEST_F(AnswerTest, EchoesAPromptWithItsLogprobs) {
  const std::vector<int32_t> prompt = {10, 0, 1};
  PromptLogprobs logprobs(prompt.size());
  logprobs.Put(2, {{-2.0f, {}, false}});
  logprobs.Put(1, {{-9.0f, {}, false}});  // another instance sends it again
  logprobs.Put(1, {{-1.0f, {}, false}, {-2.0f, {}, false}});
  const Answer::Delta echo = EchoOf(*tokenizer_, prompt, "a b", logprobs.Take(), true).value();
  EXPECT_EQ(echo.text, "a b");
  ASSERT_EQ(echo.tokens.size(), 3u);
  EXPECT_TRUE(echo.tokens[0].logprobs.is_absent);
  EXPECT_EQ(echo.tokens[1].logprobs.logprob, -1.0f);
  EXPECT_EQ(echo.tokens[2].logprobs.logprob, -2.0f);
  EXPECT_EQ(echo.tokens[2].text_offset, 1);
  EXPECT_TRUE(echo.token_ids.empty());
  EXPECT_TRUE(EchoOf(*tokenizer_, prompt, "a b", {}, true).value().tokens.empty());
}

TEST_F(AnswerTest, KeepsTheLastTokenWhenTheLengthEndedIt) {
  Answer answer = Make();
  EXPECT_EQ(answer.Push(Event({0, 1}, Finish::kLength)).value().text, "a b");
  EXPECT_EQ(answer.completion_tokens(), 2);
}

TEST_F(AnswerTest, FlushesAnIncompleteCharacterAtTheEnd) {
  Answer answer = Make();
  EXPECT_EQ(answer.Push(Event({0, 5, 6})).value().text, "a");
  EXPECT_EQ(answer.Push(Event({7}, Finish::kLength)).value().text, "\uFFFD");
}

TEST_F(AnswerTest, FlushesWhatMightHaveBecomeAStopString) {
  Answer answer = Make({"a c"});
  EXPECT_EQ(answer.Push(Event({0})).value().text, "");
  EXPECT_EQ(answer.Push(Event({}, Finish::kStop)).value().text, "a");
}

TEST_F(AnswerTest, EndsAtAStopStringAndIgnoresWhatFollows) {
  Answer answer = Make({"a b"});
  const Answer::Delta delta = answer.Push(Event({0, 0, 1, 0, 0})).value();
  EXPECT_EQ(delta.text, "a");
  EXPECT_TRUE(answer.stopped_by_string());
  EXPECT_EQ(answer.finish(), Finish::kStop);
  EXPECT_EQ(answer.completion_tokens(), 3);
  EXPECT_EQ(answer.Push(Event({0}, Finish::kLength)).value().text, "");
  EXPECT_EQ(answer.completion_tokens(), 3);
}

TEST_F(AnswerTest, ReleasesLogprobsWithTheTextTheyBelongTo) {
  Answer answer = Make({"a bb"}, true);
  EXPECT_TRUE(answer.Push(Event({0}, Finish::kNone, true)).value().tokens.empty());
  EXPECT_TRUE(answer.Push(Event({1}, Finish::kNone, true)).value().tokens.empty());
  const Answer::Delta delta = answer.Push(Event({1}, Finish::kLength, true)).value();
  EXPECT_EQ(delta.text, "a b b");
  ASSERT_EQ(delta.tokens.size(), 3u);
  EXPECT_EQ(delta.tokens[1].bytes, " b");
  EXPECT_EQ(delta.tokens[1].text_offset, 1);
}

TEST_F(AnswerTest, DropsLogprobsBehindAStopString) {
  Answer answer = Make({" b b"}, true);
  const Answer::Delta delta = answer.Push(Event({0, 1, 1}, Finish::kNone, true)).value();
  EXPECT_EQ(delta.text, "a");
  ASSERT_EQ(delta.tokens.size(), 1u);
  EXPECT_EQ(delta.tokens[0].bytes, "a");
}

TEST_F(AnswerTest, GivesTheBytesOfEveryTokenOfACharacter) {
  Answer answer = Make({}, true);
  std::string bytes;
  const Answer::Delta delta = answer.Push(Event({5, 6, 7, 8, 0}, Finish::kLength, true)).value();
  for (const Answer::TokenText& token : delta.tokens) bytes += token.bytes;
  EXPECT_EQ(bytes, "\U0001F600a");
  EXPECT_EQ(delta.tokens.back().text_offset, 1);  // in characters
}

TEST_F(AnswerTest, RefusesAnEventWithoutTheLogprobsItOwes) {
  Answer answer = Make({}, true);
  EXPECT_EQ(answer.Push(Event({0})).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace janus::gateway
