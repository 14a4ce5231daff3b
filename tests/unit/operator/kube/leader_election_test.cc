#include "operator/kube/leader_election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/kube/unimplemented_api.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

const ObjectKey kLease{"janus-system", "operator"};

// The only lease of a cluster, and the faults on the way to it.
class OneLease final : public UnimplementedApi {
 public:
  explicit OneLease(FakeClock& clock) : clock_(clock) {}

  enum class Fault { kNone, kNotSent, kReplyLost };
  Fault fault = Fault::kNone;
  Seconds delay{0};  // of every call, before it is executed
  int writes = 0;
  int made = 0;

  ApiResult<Node> Get(const Resource&, const ObjectKey& key, Subresource,
                      const CallLimits&) override {
    clock_.Advance(delay);
    if (fault == Fault::kNotSent) return Failure(false);
    EXPECT_EQ(key, kLease);
    if (!lease_) return LocalError(NotFound("no lease"));
    return *lease_;
  }
  ApiResult<Node> Create(const Resource&, const Node& object, const WriteOptions&,
                         const CallLimits&) override {
    const bool is_made = !lease_;
    if (is_made) uid_ = "uid-" + std::to_string(++made);
    return Write(object, is_made, AlreadyExists("it is there"));
  }
  ApiResult<Node> Update(const Resource&, const Node& object, Subresource, const WriteOptions&,
                         const CallLimits&) override {
    if (!lease_ && fault == Fault::kNone) return LocalError(NotFound("no lease"));
    return Write(object, lease_ && ResourceVersionOf(*lease_) == ResourceVersionOf(object),
                 Aborted("it has changed"));
  }
  const Node& lease() const { return *lease_; }
  bool is_there() const { return lease_.has_value(); }
  // Changes by people.
  void Vanish() { lease_.reset(); }
  void Replace(Node lease) {
    uid_ = "uid-" + std::to_string(++made);
    lease_ = std::move(lease);
    Stamp();
  }

 private:
  static ApiError Failure(bool outcome_unknown) {
    ApiError error = LocalError(Unavailable("injected"));
    error.outcome_unknown = outcome_unknown;
    return error;
  }
  ApiResult<Node> Write(const Node& object, bool is_allowed, Status refusal) {
    clock_.Advance(delay);
    if (fault == Fault::kNotSent) return Failure(false);
    if (!is_allowed) return LocalError(std::move(refusal));
    lease_ = object;
    Stamp();
    if (fault == Fault::kReplyLost) return Failure(true);
    return *lease_;
  }

  void Stamp() {
    SetAt(*lease_, {"metadata", "resourceVersion"}, Node::String(std::to_string(++writes)));
    SetAt(*lease_, {"metadata", "uid"}, Node::String(uid_));
  }

  FakeClock& clock_;
  std::optional<Node> lease_;
  std::string uid_;
};

class LeaderElectionTest : public testing::Test {
 protected:
  std::unique_ptr<LeaderElection> Candidate(const std::string& identity) {
    LeaderElectionOptions options;
    options.lease = kLease;
    options.identity = identity;
    return std::make_unique<LeaderElection>(lease_, options, clock_);
  }
  bool Leads(const LeaderElection& candidate) const {
    return candidate.Term(clock_.Now()).has_value();
  }
  FakeClock clock_;
  OneLease lease_{clock_};
  std::unique_ptr<LeaderElection> a_ = Candidate("a");
  std::unique_ptr<LeaderElection> b_ = Candidate("b");
};

TEST_F(LeaderElectionTest, TheFirstLeadsAndTheSecondWaits) {
  const MonotonicTime next = a_->Step({});
  b_->Step({});
  EXPECT_EQ(a_->Term(clock_.Now()), 1);
  EXPECT_FALSE(Leads(*b_));
  EXPECT_EQ(b_->leader(), "a");
  EXPECT_EQ(Seconds(next - clock_.Now()), Seconds(2));
  EXPECT_EQ(IntegerAt(lease_.lease(), {"spec", "leaseDurationSeconds"}), 15);
}

TEST_F(LeaderElectionTest, ALeaderThatCannotRenewStopsBeforeAnotherBegins) {
  a_->Step({});
  b_->Step({});
  lease_.fault = OneLease::Fault::kNotSent;
  clock_.Advance(Seconds(9.9));
  a_->Step({});
  EXPECT_TRUE(Leads(*a_));
  clock_.Advance(Seconds(0.2));
  EXPECT_FALSE(Leads(*a_));
  lease_.fault = OneLease::Fault::kNone;
  clock_.Advance(Seconds(4.8));
  b_->Step({});
  EXPECT_FALSE(Leads(*b_));
  clock_.Advance(Seconds(0.2));  // 15 s since b saw the lease
  b_->Step({});
  EXPECT_EQ(b_->Term(clock_.Now()), 2);
  a_->Step({});
  EXPECT_FALSE(Leads(*a_));
  EXPECT_EQ(a_->leader(), "b");
}

TEST_F(LeaderElectionTest, ARenewalKeepsTheTermAndTheTimeOfAcquisition) {
  a_->Step({});
  const std::string acquired(TextAt(lease_.lease(), {"spec", "acquireTime"}));
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(Seconds(2));
    a_->Step({});
    b_->Step({});
    EXPECT_EQ(a_->Term(clock_.Now()), 1);
    EXPECT_FALSE(Leads(*b_));
  }
  EXPECT_EQ(TextAt(lease_.lease(), {"spec", "acquireTime"}), acquired);
  EXPECT_NE(TextAt(lease_.lease(), {"spec", "renewTime"}), acquired);
}

TEST_F(LeaderElectionTest, ASlowRenewalCountsFromWhenItWasSent) {
  a_->Step({});
  clock_.Advance(Seconds(2));
  lease_.delay = Seconds(4);
  a_->Step({});
  EXPECT_TRUE(Leads(*a_));
  clock_.Advance(Seconds(6.1));  // 10.1 s since it was sent
  EXPECT_FALSE(Leads(*a_));
}

TEST_F(LeaderElectionTest, AWriteWithoutAReplyMakesNoLeader) {
  lease_.fault = OneLease::Fault::kReplyLost;
  a_->Step({});
  EXPECT_FALSE(Leads(*a_));
  EXPECT_EQ(TextAt(lease_.lease(), {"spec", "holderIdentity"}), "a");
  lease_.fault = OneLease::Fault::kNone;
  a_->Step({});  // it finds its own name and renews
  EXPECT_EQ(a_->Term(clock_.Now()), 1);
}

TEST_F(LeaderElectionTest, AReleasedLeaseIsTakenAtOnce) {
  a_->Step({});
  b_->Step({});
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_FALSE(Leads(*a_));
  b_->Step({});
  EXPECT_EQ(b_->Term(clock_.Now()), 2);
  // A late release does not affect the new leader.
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_EQ(TextAt(lease_.lease(), {"spec", "holderIdentity"}), "b");
}

TEST_F(LeaderElectionTest, ALeaderWhoseRenewalWasNotAnsweredCanRelease) {
  a_->Step({});
  lease_.fault = OneLease::Fault::kReplyLost;
  a_->Step({});
  lease_.fault = OneLease::Fault::kNone;
  EXPECT_TRUE(a_->Release().ok());
  b_->Step({});
  EXPECT_TRUE(Leads(*b_));
}

TEST_F(LeaderElectionTest, WhoWasNotToldThatItHasTheLeaseReleasesItAllTheSame) {
  lease_.fault = OneLease::Fault::kReplyLost;
  a_->Step({});  // creates it
  lease_.fault = OneLease::Fault::kNone;
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_EQ(TextAt(lease_.lease(), {"spec", "holderIdentity"}), "");

  b_->Step({});
  EXPECT_TRUE(Leads(*b_));
  EXPECT_TRUE(b_->Release().ok());
  a_->Step({});
  EXPECT_TRUE(Leads(*a_)) << "taken over, not made";
  EXPECT_TRUE(a_->Release().ok());
  lease_.fault = OneLease::Fault::kReplyLost;
  b_->Step({});  // takes it over
  lease_.fault = OneLease::Fault::kNone;
  EXPECT_EQ(TextAt(lease_.lease(), {"spec", "holderIdentity"}), "b");
  EXPECT_TRUE(b_->Release().ok());
  EXPECT_EQ(TextAt(lease_.lease(), {"spec", "holderIdentity"}), "");
}

TEST_F(LeaderElectionTest, AReleaseThatFailsStopsTheLeaderNevertheless) {
  a_->Step({});
  lease_.fault = OneLease::Fault::kNotSent;
  EXPECT_FALSE(a_->Release().ok());
  EXPECT_FALSE(Leads(*a_));
}

TEST_F(LeaderElectionTest, ALeaderWhoseLeaseIsDeletedLeadsNoMoreWhenItSeesThat) {
  a_->Step({});
  b_->Step({});
  clock_.Advance(Seconds(2));
  lease_.Vanish();
  a_->Step({});
  EXPECT_FALSE(Leads(*a_));
  EXPECT_EQ(a_->leader(), "");
  EXPECT_FALSE(lease_.is_there());
}

TEST_F(LeaderElectionTest, ADeletedLeaseIsMadeAnewAfterItsDurationWithATermOfItsOwn) {
  a_->Step({});
  b_->Step({});
  lease_.Vanish();
  // a hangs, but still leads as far as it knows: b must wait for it, whatever b saw before.
  clock_.Advance(Seconds(9.9));
  EXPECT_TRUE(Leads(*a_));
  const MonotonicTime missed = clock_.Now();
  while (clock_.Now() < missed + std::chrono::seconds(15)) {
    b_->Step({});
    EXPECT_FALSE(Leads(*b_));
    EXPECT_FALSE(lease_.is_there());
    clock_.Advance(Seconds(1));
  }
  EXPECT_FALSE(Leads(*a_));
  b_->Step({});
  EXPECT_EQ(b_->Term(clock_.Now()), 1000);
  a_->Step({});
  EXPECT_FALSE(Leads(*a_));
  EXPECT_EQ(a_->leader(), "b");
  // From now on normal operation.
  EXPECT_TRUE(b_->Release().ok());
  a_->Step({});
  EXPECT_EQ(a_->Term(clock_.Now()), 1001);
}

TEST_F(LeaderElectionTest, ATermThatOneHasNotSeenIsNotGivenAgain) {
  const auto c = Candidate("c");
  a_->Step({});
  b_->Step({});
  c->Step({});
  EXPECT_TRUE(a_->Release().ok());
  b_->Step({});
  EXPECT_EQ(b_->Term(clock_.Now()), 2);
  lease_.Vanish();  // c has not read it, and is the only candidate left
  for (int i = 0; i < 16; ++i) {
    c->Step({});
    EXPECT_FALSE(Leads(*c) && Leads(*b_));
    clock_.Advance(Seconds(1));
  }
  c->Step({});
  EXPECT_EQ(c->Term(clock_.Now()), 1000);
}

TEST_F(LeaderElectionTest, ALeaseThatIsNotAsItsLeaderWroteItIsNotItsOwn) {
  a_->Step({});
  const Node first = lease_.lease();
  for (const bool is_other_uid : {false, true}) {
    SCOPED_TRACE(is_other_uid);
    ASSERT_TRUE(Leads(*a_));
    const int64_t led = *a_->Term(clock_.Now());
    Node copy = is_other_uid ? lease_.lease() : first;
    if (!is_other_uid) SetAt(copy, {"spec", "leaseTransitions"}, Node::Integer(77));
    lease_.Replace(std::move(copy));
    a_->Step({});
    EXPECT_FALSE(Leads(*a_));  // although the lease names it
    clock_.Advance(Seconds(15.1));
    a_->Step({});
    ASSERT_TRUE(Leads(*a_));
    EXPECT_GT(a_->Term(clock_.Now()), std::max<int64_t>(led, is_other_uid ? 0 : 77));
  }
}

TEST_F(LeaderElectionTest, AnEditOfTheLeaseThatChangesNoTermEndsNone) {
  a_->Step({});
  Node edited = lease_.lease();
  SetAt(edited, {"metadata", "annotations", "note"}, Node::String("mine"));
  ASSERT_TRUE(lease_.Update({}, edited, Subresource::kNone, {}, {}).ok());
  clock_.Advance(Seconds(2));
  a_->Step({});
  EXPECT_EQ(a_->Term(clock_.Now()), 1);
}

// Candidates step at random times. Calls fail, hang and lose their replies, and the lease is
// deleted, but not again before all candidates have seen the outcome.
TEST_F(LeaderElectionTest, TwoNeverLeadAndNoTermHasTwoLeaders) {
  int deletions = 0;
  for (uint64_t run = 0; run < 300; ++run) {
    SCOPED_TRACE(run);
    std::minstd_rand random(MixSeed(TestSeed(), run));
    FakeClock clock;
    OneLease lease(clock);
    std::vector<std::unique_ptr<LeaderElection>> candidates;
    for (const char* name : {"a", "b", "c"}) {
      LeaderElectionOptions options;
      options.lease = kLease;
      options.identity = name;
      candidates.push_back(std::make_unique<LeaderElection>(lease, options, clock));
    }
    std::map<int64_t, size_t> leader_of_term;
    std::set<size_t> have_seen;  // candidates that have seen the newest lease
    int made = 0;
    for (int i = 0; i < 300; ++i) {
      if (lease.made != made) have_seen.clear();
      made = lease.made;
      if (random() % 20 == 0 && have_seen.size() == candidates.size()) {
        lease.Vanish();
        have_seen.clear();
        ++deletions;
      }
      const auto draw = random() % 10;
      lease.fault = draw < 6   ? OneLease::Fault::kNone
                    : draw < 8 ? OneLease::Fault::kNotSent
                               : OneLease::Fault::kReplyLost;
      lease.delay = Seconds(random() % 5 == 0 ? 4.0 : 0.01);
      const size_t chosen = random() % candidates.size();
      LeaderElection& one = *candidates[chosen];
      if (random() % 40 == 0) {
        (void)one.Release();
      } else {
        one.Step({});
        if (one.last_error().ok() && lease.is_there()) have_seen.insert(chosen);
      }
      clock.Advance(Seconds(static_cast<double>(random() % 400) / 100));
      int leaders = 0;
      for (size_t c = 0; c < candidates.size(); ++c) {
        const std::optional<int64_t> term = candidates[c]->Term(clock.Now());
        if (!term) continue;
        ++leaders;
        EXPECT_EQ(leader_of_term.emplace(*term, c).first->second, c);
      }
      ASSERT_LE(leaders, 1);
    }
    EXPECT_FALSE(leader_of_term.empty());
  }
  EXPECT_GT(deletions, 300);
}

TEST_F(LeaderElectionTest, TheGaugeSaysWhetherItLeads) {
  Gauge leads;
  LeaderElectionOptions options;
  options.lease = kLease;
  options.identity = "a";
  options.leads = &leads;
  LeaderElection a(lease_, options, clock_);
  EXPECT_EQ(leads.value(), 0);
  a.Step({});
  EXPECT_EQ(leads.value(), 1);
  lease_.fault = OneLease::Fault::kNotSent;
  clock_.Advance(Seconds(11));
  a.Step({});
  EXPECT_EQ(leads.value(), 0);
  lease_.fault = OneLease::Fault::kNone;
  a.Step({});
  EXPECT_EQ(leads.value(), 1);
  EXPECT_TRUE(a.Release().ok());
  EXPECT_EQ(leads.value(), 0);
}

}  // namespace
}  // namespace janus::control
