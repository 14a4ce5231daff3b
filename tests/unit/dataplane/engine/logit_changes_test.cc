#include "dataplane/engine/logit_changes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dataplane/engine/scheduler.h"

namespace janus::dataplane {
namespace {

// The logits after the changes, for a prompt and an answer so far.
std::vector<float> Changed(Request request, std::vector<float> logits) {
  const Sequence sequence(std::move(request));
  sequence.changes->Apply(logits);
  return logits;
}

Request Ask(std::vector<int32_t> prompt, std::vector<int32_t> answer) {
  Request request;
  request.prompt = std::move(prompt);
  request.generated = std::move(answer);
  return request;
}

using Logits = std::vector<float>;

TEST(LogitChanges, AreNoneWhereNothingIsAsked) {
  EXPECT_EQ(Sequence(Ask({1}, {2})).changes, nullptr);
}

TEST(LogitChanges, AddABias) {
  Request request = Ask({0}, {});
  request.changes.bias = {{1, 2.5f}, {3, -100.0f}};
  EXPECT_EQ(Changed(request, {1, 1, 1, 1}), (Logits{1, 3.5f, 1, -99}));
}

TEST(LogitChanges, TakeThePenaltyOfEachTimeAndOfThePresenceInTheAnswerOnly) {
  Request request = Ask({0, 0}, {1, 2, 1});
  request.changes.frequency_penalty = 0.5f;
  request.changes.presence_penalty = 0.25f;
  EXPECT_EQ(Changed(request, {4, 4, 4, 4}), (Logits{4, 2.75f, 3.25f, 4}));
}

TEST(LogitChanges, RepetitionCountsThePromptTooAndDependsOnTheSign) {
  Request request = Ask({0}, {1});
  request.changes.repetition_penalty = 2.0f;
  EXPECT_EQ(Changed(request, {4, -4, 4}), (Logits{2, -8, 4}));
}

TEST(LogitChanges, KeepTheEndsAwayUntilThereAreEnoughTokens) {
  Request request = Ask({0}, {3});
  request.changes.min_tokens = 2;
  request.stop_tokens = {1};
  EXPECT_EQ(Changed(request, {1, 9, 1}), (Logits{1, -INFINITY, 1}));
  request.generated = {3, 3};
  EXPECT_EQ(Changed(request, {1, 9, 1}), (Logits{1, 9, 1}));
}

TEST(LogitChanges, MinPKeepsAShareOfTheLikeliestAtTheTemperature) {
  Request request = Ask({0}, {});
  request.temperature = 2.0f;
  request.changes.min_p = 0.5f;
  // At temperature 2 half the probability is 2 ln 2 = 1.386 below.
  EXPECT_EQ(Changed(request, {3, 1.7f, 1.6f, 3}), (Logits{3, 1.7f, -INFINITY, 3}));
  request.temperature = 0.0f;
  EXPECT_EQ(Changed(request, {3, 1}), (Logits{3, 1})) << "greedy looks at the largest alone";
}

// In a replay, the tokens drawn elsewhere are the answer so far.
TEST(LogitChanges, OfAReplayAreThoseOfTheFirstInstance) {
  Request request = Ask({5, 1}, {});
  request.changes.repetition_penalty = 1.3f;
  request.changes.frequency_penalty = 0.7f;
  Sequence first{Request(request)};
  request.generated = {2, 1, 2};
  for (const int32_t token : request.generated) first.changes->Note(token);
  Logits once{1, 2, 3, 4, 5, 6}, again = once;
  first.changes->Apply(once);
  Sequence{Request(request)}.changes->Apply(again);
  EXPECT_EQ(once, again);
}

}  // namespace
}  // namespace janus::dataplane
