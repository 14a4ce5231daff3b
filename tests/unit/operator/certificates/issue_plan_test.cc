#include "operator/certificates/issue_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "rpc/credentials/certificate.h"

namespace janus::control {
namespace {

const std::string kUri = ServiceAuthority("cluster.local", "team-a", "chat");
const std::vector<PeerRole> kRoles = {PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts};
constexpr std::chrono::hours kDay(24);
constexpr std::chrono::minutes kMinute(1);

// A service's certificates, checked whenever something is due.
class IssuePlanTest : public testing::Test {
 protected:
  IssuePlan Look() {
    const IssuePlan plan = PlanIssue(issued_, kRoles, lifetimes_, now_);
    issued_ = Issue(issued_, plan, kUri, lifetimes_, now_).value();
    return plan;
  }
  PeerVerdict JudgeBy(const std::string& bundle, PeerRole role) const {
    return TrustBundle::Parse(bundle).value()->Judge(issued_.Find(role)->pair.certificate, now_);
  }

  const Lifetimes lifetimes_;
  WallTime now_ = std::chrono::system_clock::from_time_t(1'700'000'000);
  Issued issued_;
};

TEST_F(IssuePlanTest, FirstEverythingIsMade) {
  const IssuePlan plan = Look();
  EXPECT_TRUE(plan.makes_authority);
  EXPECT_EQ(plan.leaves, kRoles);
  EXPECT_EQ(issued_.authorities.size(), 1u);
  for (const PeerRole role : kRoles) {
    const PeerVerdict verdict = JudgeBy(issued_.Bundle(), role);
    EXPECT_TRUE(verdict.is_accepted) << verdict.message;
    EXPECT_EQ(verdict.identity, (Identity{kUri, role}));
    const KeyPair& pair = issued_.Find(role)->pair;
    EXPECT_TRUE(CheckKeyPair(pair.certificate, pair.key).ok());
  }
  EXPECT_TRUE(Look().is_empty());
}

TEST_F(IssuePlanTest, LeavesAreRenewedAtTwoThirdsOfTheirLife) {
  Look();
  now_ += 60 * kDay - kMinute;
  EXPECT_TRUE(Look().is_empty());
  now_ += kMinute;
  const IssuePlan plan = Look();
  EXPECT_FALSE(plan.makes_authority);
  EXPECT_EQ(plan.leaves, kRoles);
}

TEST_F(IssuePlanTest, ARoleThatIsMissingIsIssuedAlone) {
  Look();
  std::erase_if(issued_.leaves,
                [](const IssuedLeaf& one) { return one.role == PeerRole::kExperts; });
  EXPECT_EQ(Look().leaves, std::vector{PeerRole::kExperts});
}

TEST_F(IssuePlanTest, WhatAnAuthorityThatIsGoneHasIssuedIsIssuedAnew) {
  Look();
  issued_.authorities.clear();
  const IssuePlan plan = Look();
  EXPECT_TRUE(plan.makes_authority);
  EXPECT_EQ(plan.leaves, kRoles);
}

// Runs three years, step by step. At each step it checks every bundle that a machine may still
// have: the last one, or one as old as `spread`.
TEST_F(IssuePlanTest, NoMachineEverMeetsAnAuthorityItHasNotHeardOf) {
  std::map<WallTime, std::string> bundles;
  const WallTime end = now_ + 3 * 365 * kDay;
  Look();
  int authorities = 1, looks = 0;
  while (now_ < end) {
    const std::string before = issued_.Bundle();
    bundles[now_] = before;
    const WallTime next = NextIssue(issued_, lifetimes_, now_);
    ASSERT_GT(next, now_);
    now_ = next;
    // Nothing has expired when its check is due.
    for (const IssuedLeaf& leaf : issued_.leaves) EXPECT_GT(leaf.expires, now_);
    const IssuePlan plan = Look();
    ASSERT_FALSE(plan.is_empty() && !plan.leaves.empty());
    authorities += plan.makes_authority;
    ++looks;
    EXPECT_LE(issued_.authorities.size(), 2u);
    for (const auto& [when, bundle] : bundles) {
      if (now_ - when > lifetimes_.spread) continue;
      for (const PeerRole role : kRoles) EXPECT_TRUE(JudgeBy(bundle, role).is_accepted);
    }
    for (const PeerRole role : kRoles) {
      EXPECT_TRUE(JudgeBy(before, role).is_accepted) << "a leaf before its authority";
    }
  }
  EXPECT_EQ(authorities, 5);  // every 243 days
  EXPECT_LT(looks, 60);
}

TEST_F(IssuePlanTest, AfterASleepOfYearsEverythingIsMadeAnew) {
  Look();
  now_ += 1000 * kDay;
  const IssuePlan plan = Look();
  EXPECT_EQ(plan.dropped.size(), 1u);
  EXPECT_TRUE(plan.makes_authority);
  EXPECT_EQ(plan.leaves, kRoles);
  EXPECT_EQ(issued_.authorities.size(), 1u);
  EXPECT_TRUE(JudgeBy(issued_.Bundle(), PeerRole::kGateway).is_accepted);
}

TEST_F(IssuePlanTest, ALeafEndsWithItsAuthority) {
  Look();
  now_ += 350 * kDay;  // asleep; there is no other authority yet
  const IssuePlan plan = Look();
  EXPECT_TRUE(plan.makes_authority);
  EXPECT_EQ(issued_.Find(PeerRole::kGateway)->expires, issued_.authorities[0].expires);
}

TEST_F(IssuePlanTest, AnAuthorityThatNotEverybodyHasHeardOfSignsNothing) {
  IssueCircumstances not_heard, not_shown;
  not_heard.is_heard = not_shown.is_shown = false;
  Look();
  now_ += 244 * kDay;
  ASSERT_TRUE(Look().makes_authority);
  now_ += kDay;
  EXPECT_TRUE(PlanIssue(issued_, kRoles, lifetimes_, now_, not_heard).is_empty());
  ASSERT_EQ(Look().leaves, kRoles);
  EXPECT_EQ(issued_.leaves[0].issuer, issued_.authorities[1].id);
  // Without knowledge of bundles in use, the signer stays the same.
  now_ += kDay;
  EXPECT_TRUE(PlanIssue(issued_, kRoles, lifetimes_, now_, not_heard).leaves.empty());
  // The old authority is trusted while a process may still show a leaf of it.
  EXPECT_TRUE(PlanIssue(issued_, kRoles, lifetimes_, now_, not_shown).is_empty());
  EXPECT_EQ(Look().dropped.size(), 1u);
}

// One request, identified by its text: new leaves at once by the known authority, then leaves by
// the new one. In the end no bundle contains the old authority.
TEST_F(IssuePlanTest, ARenewalThatIsAskedForEndsWithAnotherAuthorityAlone) {
  Look();
  const std::string old = issued_.Bundle();
  now_ += kDay;
  IssueCircumstances asked;
  asked.renewal = "2023-11-15";
  const auto look = [&] {
    const IssuePlan plan = PlanIssue(issued_, kRoles, lifetimes_, now_, asked);
    issued_ = Issue(issued_, plan, kUri, lifetimes_, now_).value();
    return plan;
  };
  IssuePlan plan = look();
  EXPECT_TRUE(plan.makes_authority);
  EXPECT_EQ(plan.leaves, kRoles);
  EXPECT_TRUE(JudgeBy(old, PeerRole::kExperts).is_accepted);
  EXPECT_TRUE(look().is_empty()) << "once";
  issued_ = ReadIssued(WriteIssued(issued_)).value();
  EXPECT_TRUE(look().is_empty()) << "by whoever reads it, too";

  now_ = NextIssue(issued_, lifetimes_, now_);
  plan = look();
  EXPECT_EQ(plan.leaves, kRoles);
  EXPECT_TRUE(plan.dropped.empty()) << "somebody may still show a leaf of it";
  EXPECT_FALSE(JudgeBy(old, PeerRole::kExperts).is_accepted);
  now_ = NextIssue(issued_, lifetimes_, now_);
  EXPECT_EQ(look().dropped.size(), 1u);
  EXPECT_EQ(issued_.authorities.size(), 1u);
  EXPECT_TRUE(JudgeBy(issued_.Bundle(), PeerRole::kExperts).is_accepted);
}

// However many requests come, at most one new authority waits for distribution.
TEST_F(IssuePlanTest, RenewalsDoNotPileUp) {
  Look();
  for (int i = 0; i < 100; ++i) {
    now_ += kMinute;
    IssueCircumstances asked;
    asked.renewal = std::to_string(i);
    const IssuePlan plan = PlanIssue(issued_, kRoles, lifetimes_, now_, asked);
    EXPECT_EQ(plan.leaves, kRoles);
    issued_ = Issue(issued_, plan, kUri, lifetimes_, now_).value();
    EXPECT_LE(issued_.authorities.size(), 3u);
  }
}

TEST_F(IssuePlanTest, ClocksThatAreAFewMinutesBehindTakeAFreshCertificate) {
  Look();
  now_ -= 4 * kMinute;
  EXPECT_TRUE(JudgeBy(issued_.Bundle(), PeerRole::kExperts).is_accepted);
}

TEST_F(IssuePlanTest, WhatIsWrittenIsReadAgain) {
  Look();
  const Result<Issued> read = ReadIssued(WriteIssued(issued_));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(WriteIssued(*read), WriteIssued(issued_));
  EXPECT_TRUE(PlanIssue(*read, kRoles, lifetimes_, now_).is_empty());
  EXPECT_FALSE(ReadIssued("{}").ok());
  EXPECT_FALSE(ReadIssued("nonsense").ok());
  EXPECT_FALSE(ReadIssued(R"({"authorities": [], "leaves": [{"role": "king"}]})").ok());
}

}  // namespace
}  // namespace janus::control
