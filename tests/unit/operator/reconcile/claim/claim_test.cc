#include "operator/reconcile/claim/claim.h"

#include <gtest/gtest.h>

#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/wake_time.h"
#include "tests/support/contains.h"

namespace janus::control {
namespace {

constexpr char kOurs[] = "a/janus";
constexpr char kTheirs[] = "b/janus";
constexpr MonotonicTime kStart{std::chrono::seconds(1000)};

Node Held(const Claim& claim) {
  Node out = Object({{"metadata", Object({{"name", Text("demo")}})}});
  if (!claim.holder.empty()) SetClaim(out, claim);
  return out;
}

TEST(Claim, ComesBackAsItWasWritten) {
  for (const Claim& claim : {Claim{}, Claim{kOurs, ""}, Claim{kOurs, kTheirs}}) {
    EXPECT_EQ(ClaimOf(Held(claim)), claim);
  }
}

TEST(Claim, WithoutOtherReleasesEverythingIsOurs) {
  ClaimMemory memory;
  const ClaimDecision decision = DecideClaim(Held({kTheirs, ""}), "", kStart, memory);
  EXPECT_TRUE(decision.is_ours);
  EXPECT_FALSE(decision.write);
}

TEST(Claim, WhatNobodyHoldsIsTakenAndThenKept) {
  ClaimMemory memory;
  ClaimDecision decision = DecideClaim(Held({}), kOurs, kStart, memory);
  EXPECT_TRUE(decision.is_ours);
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(ClaimOf(*decision.write), (Claim{kOurs, ""}));
  decision = DecideClaim(*decision.write, kOurs, kStart, memory);
  EXPECT_TRUE(decision.is_ours);
  EXPECT_FALSE(decision.write);
  EXPECT_EQ(memory.RivalAt(kStart), "");
}

TEST(Claim, AChallengerIsKnownForAWhile) {
  ClaimMemory memory;
  EXPECT_TRUE(DecideClaim(Held({kOurs, kTheirs}), kOurs, kStart, memory).is_ours);
  EXPECT_EQ(memory.RivalAt(At(kStart, kRivalFor - Seconds(1))), kTheirs);
  EXPECT_EQ(memory.RivalAt(At(kStart, kRivalFor)), "");
}

TEST(Claim, AHolderThatAnswersIsAskedAgainAfterAPause) {
  ClaimMemory memory;
  ClaimDecision decision = DecideClaim(Held({kTheirs, ""}), kOurs, kStart, memory);
  EXPECT_FALSE(decision.is_ours);
  ASSERT_TRUE(decision.event);
  EXPECT_EQ(decision.event->cause.reason, "AnotherOperator");
  EXPECT_TRUE(Contains(decision.event->cause.message, kTheirs));
  EXPECT_TRUE(Contains(decision.event->cause.message, kOurs));
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(ClaimOf(*decision.write), (Claim{kTheirs, kOurs}));

  const MonotonicTime answered = At(kStart, Seconds(1));
  decision = DecideClaim(Held({kTheirs, ""}), kOurs, answered, memory);
  EXPECT_FALSE(decision.is_ours);
  EXPECT_FALSE(decision.write);
  EXPECT_FALSE(decision.event) << "one Event for each holder";
  EXPECT_EQ(decision.again, At(kStart, kChallengePause));
  decision = DecideClaim(Held({kTheirs, ""}), kOurs, *decision.again, memory);
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(ClaimOf(*decision.write), (Claim{kTheirs, kOurs}));
}

TEST(Claim, AHolderThatIsSilentHasGone) {
  ClaimMemory memory;
  DecideClaim(Held({kTheirs, ""}), kOurs, kStart, memory);
  const Node asked = Held({kTheirs, kOurs});
  ClaimDecision decision = DecideClaim(asked, kOurs, At(kStart, kAnswer - Seconds(1)), memory);
  EXPECT_FALSE(decision.is_ours);
  EXPECT_FALSE(decision.write);
  EXPECT_EQ(decision.again, At(kStart, kAnswer));
  decision = DecideClaim(asked, kOurs, At(kStart, kAnswer), memory);
  EXPECT_TRUE(decision.is_ours);
  ASSERT_TRUE(decision.write);
  EXPECT_EQ(ClaimOf(*decision.write), (Claim{kOurs, ""}));
}

TEST(Claim, ARestartedChallengerGivesTheWholeTimeAgain) {
  ClaimMemory memory;
  const ClaimDecision decision = DecideClaim(Held({kTheirs, kOurs}), kOurs, kStart, memory);
  EXPECT_FALSE(decision.is_ours);
  EXPECT_EQ(decision.again, At(kStart, kAnswer));
}

TEST(Claim, AThirdReleaseWaitsForTheSecond) {
  ClaimMemory memory;
  const ClaimDecision decision = DecideClaim(Held({kTheirs, "c/janus"}), kOurs, kStart, memory);
  EXPECT_FALSE(decision.is_ours);
  EXPECT_FALSE(decision.write);
  EXPECT_EQ(decision.again, At(kStart, kAnswer));
}

}  // namespace
}  // namespace janus::control
