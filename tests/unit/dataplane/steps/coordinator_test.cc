#include "dataplane/steps/coordinator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/fake_clock.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

class CoordinatorTest : public testing::Test {
 protected:
  void Make(int m, Seconds prompt_step = Seconds(0.1)) {
    CoordinatorOptions options;
    options.prompt_step = prompt_step;
    options.m = m;
    options.max_rows = 64;
    coordinator_.emplace(options);
    coordinator_->WaitForLeftOut(Seconds(10));
  }
  void Say(int rank, uint64_t for_step, uint32_t decode_rows, uint32_t prefill_rows = 0,
           Seconds last_step = Seconds(0)) {
    DemandNote note;
    note.for_step = for_step;
    note.demand.decode_rows = decode_rows;
    note.demand.prefill_rows = prefill_rows;
    if (last_step.count() > 0) {
      note.demand.last_decode_rows = decode_rows;
      note.demand.last_prefill_rows = std::min(prefill_rows, 16u);
      note.demand.last_step_ns = static_cast<int64_t>(last_step.count() * 1e9);
    }
    coordinator_->OnDemand(rank, note, clock_.Now());
  }
  // The participants of the next ticket as text, "" when none is due.
  std::string Next() {
    const std::optional<Ticket> ticket = coordinator_->Next(clock_.Now());
    if (!ticket) return "";
    std::string text = std::to_string(ticket->step) + ":";
    for (size_t r = 0; r < ticket->shares.size(); ++r) {
      if (ticket->participates(static_cast<int>(r))) text += " " + std::to_string(r);
    }
    return text;
  }
  // All members step together once, so that later steps have a predicted time.
  void Warm(int m, Seconds step) {
    for (int r = 0; r < m; ++r) Say(r, 1, 8);
    ASSERT_NE(Next(), "");
    for (int r = 0; r < m; ++r) Say(r, 2, 8, 0, step);
    ASSERT_NE(Next(), "");
  }
  // Two members; step 3 was issued without the second.
  void LeaveOutTheSecond() {
    Make(2);
    Warm(2, Seconds(1.0));
    Say(0, 3, 8);
    clock_.Advance(Seconds(0.2));
    ASSERT_EQ(Next(), "3: 0");
  }

  FakeClock clock_;
  std::optional<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, IssuesNothingWithoutWork) {
  Make(2);
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(coordinator_->NextDeadline(), MonotonicTime::max());
  Say(1, 1, 0, 0);
  EXPECT_EQ(Next(), "");
}

TEST_F(CoordinatorTest, TheIdleTakeNoPart) {
  Make(3);
  Say(1, 1, 0, 5);
  EXPECT_EQ(Next(), "1: 1");
}

TEST_F(CoordinatorTest, IsOneTicketAheadAndNotTwo) {
  Make(1);
  Say(0, 1, 1);
  EXPECT_EQ(Next(), "1: 0");
  EXPECT_EQ(Next(), "") << "step 1 has not begun";
  Say(0, 2, 1);
  EXPECT_EQ(Next(), "2: 0");
  EXPECT_EQ(Next(), "");
}

TEST_F(CoordinatorTest, WaitsForAllParticipantsOfTheStepBefore) {
  Make(2);
  Warm(2, Seconds(1.0));
  Say(0, 3, 8);
  EXPECT_EQ(Next(), "");
  Say(1, 3, 8);
  EXPECT_EQ(Next(), "3: 0 1");
}

TEST_F(CoordinatorTest, WaitsATenthOfThePredictedStepAndThenGoesOnWithout) {
  Make(2);
  Warm(2, Seconds(1.0));
  Say(0, 3, 8);
  const MonotonicTime ready = clock_.Now();
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(coordinator_->NextDeadline(), ready + std::chrono::milliseconds(100));
  clock_.Advance(Seconds(0.099));
  EXPECT_EQ(Next(), "");
  clock_.Advance(Seconds(0.002));
  EXPECT_EQ(Next(), "3: 0");
  EXPECT_EQ(coordinator_->sit_outs(1), 1u);
  EXPECT_EQ(coordinator_->sit_outs(0), 0u);
}

TEST_F(CoordinatorTest, WaitsForWhoWasLeftOutUpToTheDetectionDeadline) {
  LeaveOutTheSecond();
  Say(0, 4, 8);
  clock_.Advance(Seconds(9.9));
  EXPECT_EQ(Next(), "") << "left out once already";
  Say(1, 3, 8);
  EXPECT_EQ(Next(), "4: 0 1") << "what it brings has not changed by a step without it";
}

// The ticket that left it out may have been lost; then it knows of no later step.
TEST_F(CoordinatorTest, WhoWasLeftOutAndDoesNotKnowComesInWhenItSpeaks) {
  LeaveOutTheSecond();
  Say(0, 4, 0);
  EXPECT_EQ(Next(), "") << "nobody has work";
  Say(1, 3, 8);
  EXPECT_EQ(Next(), "4: 1");
}

TEST_F(CoordinatorTest, WhoWasLeftOutTwiceComesInWhenItSpeaks) {
  LeaveOutTheSecond();
  Say(0, 4, 8);
  clock_.Advance(Seconds(10.1));
  ASSERT_EQ(Next(), "4: 0");
  Say(1, 3, 8);
  Say(0, 5, 8);
  EXPECT_EQ(Next(), "5: 0 1");
}

TEST_F(CoordinatorTest, GoesOnWithoutWhoIsSilentBeyondTheDetectionDeadline) {
  LeaveOutTheSecond();
  Say(0, 4, 8);
  clock_.Advance(Seconds(10.1));
  EXPECT_EQ(Next(), "4: 0");
  EXPECT_EQ(coordinator_->sit_outs(1), 2u);
  Say(0, 5, 8);
  EXPECT_EQ(Next(), "5: 0") << "not every step waits for somebody who has nothing to say";
  Say(0, 6, 8);
  Say(1, 3, 8);
  EXPECT_EQ(Next(), "6: 0 1");
  Say(0, 7, 8);
  EXPECT_EQ(Next(), "") << "it is waited for again";
}

TEST_F(CoordinatorTest, WhoHadNothingToDoIsNotWaitedForAndComesInWhenItHas) {
  Make(2);
  Say(0, 1, 8);
  ASSERT_EQ(Next(), "1: 0");
  Say(0, 2, 8);
  ASSERT_EQ(Next(), "2: 0");
  Say(1, 1, 0, 5);  // its demand crossed tickets 1 and 2
  Say(0, 3, 8);
  EXPECT_EQ(Next(), "3: 0 1");
}

TEST_F(CoordinatorTest, WhoHasFinishedDropsOutWithoutBeingLeftOut) {
  Make(2);
  Warm(2, Seconds(1.0));
  Say(0, 3, 8);
  Say(1, 3, 0);
  EXPECT_EQ(Next(), "3: 0");
  EXPECT_EQ(coordinator_->sit_outs(1), 0u);
  Say(0, 4, 8);
  EXPECT_EQ(Next(), "4: 0");
}

TEST_F(CoordinatorTest, AnOvertakenDemandChangesNothing) {
  Make(1);
  Say(0, 1, 1);
  ASSERT_EQ(Next(), "1: 0");
  Say(0, 2, 0);
  Say(0, 1, 9);
  EXPECT_EQ(Next(), "");
}

TEST_F(CoordinatorTest, ADemandForAStepThatCannotBeKnownYetHidesNoTrueOne) {
  Make(1);
  Say(0, 7, 4);
  EXPECT_EQ(Next(), "");
  Say(0, 1, 4);
  EXPECT_EQ(Next(), "1: 0");
}

TEST_F(CoordinatorTest, AnAbsurdDemandTakesNoMoreThanARound) {
  Make(2);
  Say(0, 1, 3);
  Say(1, 1, UINT32_MAX, UINT32_MAX);
  const std::optional<Ticket> ticket = coordinator_->Next(clock_.Now());
  ASSERT_TRUE(ticket.has_value());
  for (const TicketShare& share : ticket->shares) {
    EXPECT_EQ(share.row_limit, 64);
    EXPECT_LE(share.prefill_budget, 64);
  }
}

TEST_F(CoordinatorTest, StepNumbersAreNeverUsedTwice) {
  Make(2);
  uint64_t last = 0;
  Random random(MixSeed(TestSeed(), 3));
  for (int i = 0; i < 200; ++i) {
    for (int r = 0; r < 2; ++r) {
      if (random.Chance(0.6)) Say(r, last + 1, static_cast<uint32_t>(random.Between(0, 3)));
    }
    clock_.Advance(Seconds(random.Chance(0.1) ? 11.0 : 0.01));
    const std::optional<Ticket> ticket = coordinator_->Next(clock_.Now());
    if (!ticket) continue;
    EXPECT_EQ(ticket->step, last + 1);
    last = ticket->step;
  }
  EXPECT_GT(last, 20u);
}

TEST_F(CoordinatorTest, AfterAGivenUpStepEverybodyIsAskedAgain) {
  Make(2);
  Warm(2, Seconds(1.0));
  for (int r = 0; r < 2; ++r) Say(r, 3, 4);
  coordinator_->Void(2);
  EXPECT_EQ(Next(), "") << "what was said for step 3 counted on step 2";
  Say(0, 3, 4);
  EXPECT_EQ(Next(), "");
  Say(1, 3, 0);
  EXPECT_EQ(Next(), "3: 0") << "attention 1 had ended its step before";
}

TEST_F(CoordinatorTest, WhoAsksLateForTheNewestStepHasLostItsTicket) {
  Make(2);
  const auto is_lost = [&](int rank, uint64_t asked_for) {
    return coordinator_->HasLostTicket(rank, asked_for, clock_.Now(), Seconds(1));
  };
  EXPECT_FALSE(is_lost(1, 0));
  Say(1, 1, 8);
  clock_.Advance(Seconds(2));
  EXPECT_FALSE(is_lost(1, 1)) << "no ticket has gone out";
  ASSERT_EQ(Next(), "1: 1");
  clock_.Advance(Seconds(0.9));
  EXPECT_FALSE(is_lost(1, 1)) << "it may have asked before the ticket came";
  clock_.Advance(Seconds(0.2));
  EXPECT_TRUE(is_lost(1, 1));
  EXPECT_FALSE(is_lost(1, 2)) << "it has begun the step";
  EXPECT_FALSE(is_lost(0, 1)) << "it has no part in it, and the next ticket tells it so";
  Say(1, 2, 8);
  EXPECT_FALSE(is_lost(1, 1)) << "an old demand that comes late";
  ASSERT_EQ(Next(), "2: 1");
  clock_.Advance(Seconds(2));
  coordinator_->Void(2);
  EXPECT_FALSE(is_lost(1, 2)) << "given up already";
}

TEST_F(CoordinatorTest, GivenUpNumbersAreNeverUsedAgain) {
  Make(1);
  Say(0, 1, 1);
  EXPECT_EQ(Next(), "1: 0");
  coordinator_->Void(5);  // a member has seen a falsified ticket of step 5
  Say(0, 6, 1);
  EXPECT_EQ(Next(), "6: 0");
  coordinator_->Void(3);
  Say(0, 7, 1);
  EXPECT_EQ(Next(), "7: 0");
}

TEST_F(CoordinatorTest, EverybodyWhoHasPromptsMovesOn) {
  // Rank 1 has no decode rows and endless prompts, so it always has the least load.
  Make(2);
  uint64_t granted = 0;
  for (uint64_t step = 1; step <= 10; ++step) {
    Say(0, step, 40, 500, Seconds(5.0));  // far above the target: the budget is minimal
    Say(1, step, 0, 100'000, Seconds(5.0));
    const std::optional<Ticket> ticket = coordinator_->Next(clock_.Now());
    ASSERT_TRUE(ticket.has_value());
    if (step > 1) granted += ticket->shares[0].prefill_budget;
  }
  EXPECT_GT(granted, 0u) << "the prompt beside many decode rows starves";
}

TEST_F(CoordinatorTest, PromptsMoveOnWhereARoundIsSmallerThanTheLeastBudget) {
  CoordinatorOptions options;
  options.m = 1;
  options.max_rows = 4;
  coordinator_.emplace(options);
  Say(0, 1, 0, 100);
  const std::optional<Ticket> ticket = coordinator_->Next(clock_.Now());
  ASSERT_TRUE(ticket.has_value());
  EXPECT_EQ(ticket->shares[0].row_limit, 4);
  EXPECT_EQ(ticket->shares[0].prefill_budget, 4);
}

// A step is common to all instances. The time of an instance that only decodes is not that of
// decoding alone. A prompt at one of two instances may use the budget of one instance, not of both.
TEST_F(CoordinatorTest, APromptAtOneOfTwoLeavesTheStepItsTarget) {
  Make(2, Seconds(0.05));
  const auto took = [](int prefill) { return 0.03 + (prefill > 0 ? 0.008 : 0) + 0.0005 * prefill; };
  const auto note = [&](int rank, uint64_t step, uint32_t decode, uint32_t waiting, int last) {
    DemandNote said;
    said.for_step = step;
    said.demand.decode_rows = decode;
    said.demand.prefill_rows = waiting;
    said.demand.last_decode_rows = decode;
    said.demand.last_prefill_rows = rank == 0 ? static_cast<uint32_t>(last) : 0;
    said.demand.last_step_ns = step > 2 ? static_cast<int64_t>(took(last) * 1e9) : 0;
    if (rank == 1 || step > 11) coordinator_->OnDemand(rank, said, clock_.Now());
  };
  int beyond = 0, granted = 0;
  for (uint64_t step = 1; step < 200; ++step) {
    note(0, step, 0, step > 10 ? 8192 : 0, granted);
    note(1, step, 4, 0, granted);
    const std::optional<Ticket> ticket = coordinator_->Next(clock_.Now());
    ASSERT_TRUE(ticket);
    granted = ticket->participates(0) ? ticket->shares[0].prefill_budget : 0;
    beyond += took(granted) > 0.05 * 1.02 ? 1 : 0;
    if (step > 20) {
      EXPECT_GE(granted, 16) << step;
    }
  }
  EXPECT_LE(beyond, 3) << "before the rate of a size is known";
}

Demand Wants(uint32_t decode_rows, uint32_t prefill_rows) {
  Demand demand;
  demand.decode_rows = decode_rows;
  demand.prefill_rows = prefill_rows;
  return demand;
}

TEST(SharePrefill, RaisesTheLeastLoadedFirst) {
  EXPECT_EQ(SharePrefill({512, 64}, {Wants(10, 100), Wants(10, 100)}, 512),
            (std::vector<int>{32, 32}));
  EXPECT_EQ(SharePrefill({512, 16}, {Wants(40, 100), Wants(0, 100)}, 512),
            (std::vector<int>{0, 16}));
  const std::vector<int> shares = SharePrefill({512, 80}, {Wants(40, 100), Wants(0, 100)}, 512);
  EXPECT_EQ(shares[0] + shares[1], 80);
  EXPECT_LE(std::abs((40 + shares[0]) - shares[1]), 8);
}

TEST(SharePrefill, GivesNobodyWithoutWorkAndNobodyBeyondItsRows) {
  EXPECT_EQ(SharePrefill({512, 1000}, {Wants(0, 0), Wants(60, 100)}, 64), (std::vector<int>{0, 4}));
  EXPECT_EQ(SharePrefill({512, 1000}, {Wants(64, 100)}, 64), (std::vector<int>{0}));
  EXPECT_EQ(SharePrefill({512, 1000}, {Wants(100, 100)}, 64), (std::vector<int>{0}));
}

TEST(SharePrefill, WhatNobodyAskedForWaitsForRequestsThatArriveMeanwhile) {
  EXPECT_EQ(SharePrefill({512, 20}, {Wants(5, 0)}, 64), (std::vector<int>{20}));
}

TEST(SharePrefill, NeverExceedsItsBudgetAndBalances) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    const int m = random.Between(1, 6);
    const int max_rows = random.Between(1, 512);
    const int budget = random.Between(0, 600);
    const int each = random.Chance(0.5) ? max_rows : random.Between(0, max_rows);
    std::vector<Demand> demands;
    for (int r = 0; r < m; ++r) {
      demands.push_back(
          Wants(static_cast<uint32_t>(random.Between(0, max_rows)),
                random.Chance(0.3) ? 0u : static_cast<uint32_t>(random.Between(0, 900))));
    }
    const std::vector<int> shares = SharePrefill({each, budget}, demands, max_rows);
    EXPECT_LE(std::accumulate(shares.begin(), shares.end(), 0), budget);
    for (size_t r = 0; r < shares.size(); ++r) {
      EXPECT_GE(shares[r], 0);
      EXPECT_LE(shares[r], each);
      EXPECT_LE(shares[r] + static_cast<int>(demands[r].decode_rows),
                std::max(max_rows, shares[r]));
      // No instance that wanted more is left below another by more than a chunk.
      const bool wanted_more = static_cast<int64_t>(demands[r].prefill_rows) > shares[r] &&
                               shares[r] < each &&
                               shares[r] + static_cast<int>(demands[r].decode_rows) < max_rows;
      if (!wanted_more) continue;
      for (size_t other = 0; other < shares.size(); ++other) {
        if (shares[other] == 0 || static_cast<int64_t>(demands[other].prefill_rows) < shares[other])
          continue;
        EXPECT_LE(static_cast<int>(demands[other].decode_rows) + shares[other],
                  static_cast<int>(demands[r].decode_rows) + shares[r] + 8);
      }
    }
  }
}

}  // namespace
}  // namespace janus::dataplane
