#include "dataplane/engine/constraint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "dataplane/engine/constraint_thread.h"
#include "dataplane/engine/scheduler.h"
#include "tests/support/modular_grammar.h"

namespace janus::dataplane {
namespace {

constexpr size_t kVocab = 70;

Request Ask(std::vector<int32_t> generated, int length = 4, int may_end = 2) {
  Request request;
  request.prompt = {1};
  request.generated = std::move(generated);
  request.stop_tokens = {1, 65};
  request.grammar = std::make_shared<ModularGrammar>(kVocab, length, may_end);
  return request;
}

// Ids of the logits that stay, of a vocabulary that is larger than the grammar's.
std::vector<int32_t> Left(Constraint& constraint) {
  std::vector<float> logits(kVocab + 5, 1.5f);
  EXPECT_TRUE(constraint.Apply(logits).ok());
  std::vector<int32_t> left;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isfinite(logits[id])) left.push_back(static_cast<int32_t>(id));
  }
  return left;
}

std::vector<int32_t> Every3rd(int32_t from, std::vector<int32_t> also = {}) {
  for (auto id = from; id < static_cast<int32_t>(kVocab); id += 3) also.push_back(id);
  std::ranges::sort(also);
  return also;
}

TEST(Constraint, IsOnlyWhereARequestHasAGrammar) {
  Request none = Ask({});
  none.grammar = nullptr;
  EXPECT_FALSE(Sequence(std::move(none)).ChangesLogits());
  EXPECT_TRUE(Sequence(Ask({})).ChangesLogits());
}

TEST(Constraint, LeavesTheTokensOfTheGrammarAndStopsOnlyWhereTheAnswerMayEnd) {
  Constraint constraint(Ask({}));
  EXPECT_EQ(Left(constraint), Every3rd(0));
  EXPECT_FALSE(constraint.Note(3).value());
  EXPECT_EQ(Left(constraint), Every3rd(0));
  EXPECT_FALSE(constraint.Note(0).value());
  EXPECT_EQ(Left(constraint), Every3rd(0, {1, 65}));
  EXPECT_FALSE(constraint.Note(6).value());
  EXPECT_TRUE(constraint.Note(9).value()) << "complete";
}

TEST(Constraint, DoesNotStopARequestThatIgnoresStops) {
  Request request = Ask({0, 0});
  request.ignore_stop_tokens = true;
  Constraint constraint(request);
  EXPECT_EQ(Left(constraint), Every3rd(0));
}

TEST(Constraint, OfAReplayIsThatOfTheTokensBefore) {
  Constraint whole(Ask({})), replay(Ask({3, 3}));
  for (const int32_t token : {3, 3}) {
    Left(whole);
    ASSERT_FALSE(whole.Note(token).value());
  }
  EXPECT_EQ(Left(whole), Left(replay));
}

TEST(Constraint, TakesTokensThatWereDrawnBeforeTheFirstMask) {
  Constraint early(Ask({})), replay(Ask({3}));
  ASSERT_FALSE(early.Note(3).value());
  EXPECT_EQ(Left(early), Left(replay));
}

TEST(Constraint, KeepsItsFirstError) {
  Constraint constraint(Ask({2}));
  std::vector<float> logits(kVocab);
  const Status why = constraint.Apply(logits);
  EXPECT_EQ(why.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(constraint.Apply(logits), why);
  EXPECT_EQ(constraint.Note(0).status(), why);
}

TEST(Constraint, AnswersWhereNothingCanCome) {
  Request request = Ask({0, 0, 0, 0});
  request.stop_tokens = {};
  Constraint constraint(request);
  std::vector<float> logits(kVocab);
  EXPECT_EQ(constraint.Apply(logits).code(), StatusCode::kInvalidArgument);
}

TEST(ConstraintThread, ComputesBesideWhoNeedsTheMasks) {
  ConstraintThread thread;
  thread.Begin({});
  for (int round = 0; round < 50; ++round) {
    std::vector<std::shared_ptr<Constraint>> all;
    for (int i = 0; i < 8; ++i) all.push_back(std::make_shared<Constraint>(Ask({})));
    thread.Begin(all);
    for (const auto& one : all) EXPECT_EQ(Left(*one), Every3rd(0));
    for (const auto& one : all) ASSERT_FALSE(one->Note(3).value());
  }
}

}  // namespace
}  // namespace janus::dataplane
