#include "operator/reconcile/epochs/next_step.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/support/random.h"

namespace janus::control {
namespace {

using Kind = EpochStepKind;

InstanceId Instance(int pod, int incarnation = 0) {
  return {Role::kExperts, "pod-" + std::to_string(pod), 0, incarnation};
}

EpochContent Of(std::initializer_list<int> pods, const std::string& config = "c1") {
  EpochContent out;
  for (const int pod : pods) out.members.insert(Instance(pod));
  out.config_hash = config;
  return out;
}

// A leader that has raised the fence and told all members of the committed epoch.
LeaderProgress Settled(const EpochRecord& record) {
  LeaderProgress progress;
  progress.fence = record.fence;
  progress.told = record.committed ? record.committed->epoch : 0;
  return progress;
}

TEST(NextStep, GoesFromProposalToCommitAndTellsIt) {
  EpochRecord record{.fence = 3};
  LeaderProgress progress;
  const EpochContent wanted = Of({1, 2});
  const auto next = [&] { return NextStep(record, progress, wanted, wanted.members); };

  EXPECT_EQ(next().kind, Kind::kRaiseFence);
  progress.fence = record.fence = 4;
  EXPECT_EQ(next().kind, Kind::kPropose);
  EXPECT_EQ(next().epoch, 1);
  record.proposed = {1, wanted};
  record.last_epoch = progress.preparing = 1;
  EXPECT_EQ(next().kind, Kind::kPrepare);
  progress.prepare = PrepareState::kRunning;
  EXPECT_EQ(next().kind, Kind::kWait);
  progress.prepare = PrepareState::kDone;
  EXPECT_EQ(next().kind, Kind::kCommit);
  record.committed = record.proposed;
  record.proposed.reset();
  EXPECT_EQ(next().kind, Kind::kTell);
  progress.told = 1;
  EXPECT_EQ(next().kind, Kind::kNothing);
}

TEST(NextStep, ALeaderThatAnotherHasPassedDoesNothingButRaiseItsFence) {
  EpochRecord record{.fence = 5, .last_epoch = 1, .committed = RecordedEpoch{1, Of({1})}};
  LeaderProgress progress = Settled(record);
  progress.fence = 4;
  EXPECT_EQ(NextStep(record, progress, Of({1, 2}), Of({1, 2}).members).kind, Kind::kRaiseFence);
}

// A gateway that watches both topologies uses the one with the higher number.
TEST(NextStep, BesideAnotherTopologyItsNumbersAreTheHigherOnes) {
  EpochRecord record{.fence = 5};
  LeaderProgress progress = Settled(record);
  progress.above = 8;
  const EpochContent wanted = Of({1});
  const auto next = [&] { return NextStep(record, progress, wanted, wanted.members); };
  EXPECT_EQ(next().kind, Kind::kPropose);
  EXPECT_EQ(next().epoch, 9);
  record.proposed = {9, wanted};
  record.last_epoch = progress.preparing = 9;
  progress.prepare = PrepareState::kDone;
  EXPECT_EQ(next().kind, Kind::kCommit);
  progress.above = 9;  // a loss of the other one was repaired meanwhile
  EXPECT_EQ(next().kind, Kind::kAbort);
  record.proposed.reset();
  progress.preparing = 0;
  EXPECT_EQ(next().epoch, 10);
}

TEST(NextStep, WhatIsProposedForWhatIsNotWantedAnyMoreIsAborted) {
  EpochRecord record{.fence = 5, .last_epoch = 1, .proposed = RecordedEpoch{1, Of({1})}};
  LeaderProgress progress = Settled(record);
  progress.preparing = 1;
  progress.prepare = PrepareState::kDone;
  progress.ends = true;
  EXPECT_EQ(NextStep(record, progress, {}, Of({1}).members).kind, Kind::kAbort);
  record.proposed.reset();
  EXPECT_EQ(NextStep(record, progress, {}, Of({1}).members).kind, Kind::kNothing);
}

TEST(NextStep, WhatAnotherLeaderProposedIsAborted) {
  EpochRecord record{.fence = 5,
                     .last_epoch = 2,
                     .committed = RecordedEpoch{1, Of({1})},
                     .proposed = RecordedEpoch{2, Of({1, 2})}};
  LeaderProgress progress = Settled(record);
  const EpochStep step = NextStep(record, progress, Of({1, 2}), Of({1, 2}).members);
  EXPECT_EQ(step.kind, Kind::kAbort);
  EXPECT_EQ(step.epoch, 2);
}

TEST(NextStep, AMemberThatGoesWhileItPreparesEndsTheProposal) {
  EpochRecord record{.fence = 5,
                     .last_epoch = 2,
                     .committed = RecordedEpoch{1, Of({1})},
                     .proposed = RecordedEpoch{2, Of({1, 2})}};
  LeaderProgress progress = Settled(record);
  progress.preparing = 2;
  for (const PrepareState state :
       {PrepareState::kNone, PrepareState::kRunning, PrepareState::kFailed, PrepareState::kDone}) {
    progress.prepare = state;
    const EpochStep step = NextStep(record, progress, Of({1, 2}), Of({1}).members);
    EXPECT_EQ(step.kind, Kind::kAbort);
    EXPECT_EQ(step.gone, Instance(2));
  }
  std::set<InstanceId> restarted = {Instance(1), Instance(2, 1)};
  EXPECT_EQ(NextStep(record, progress, Of({1, 2}), restarted).kind, Kind::kAbort);
}

TEST(NextStep, AFailedPrepareIsAbortedAndNotTriedAgainWhileBackingOff) {
  EpochRecord record{.fence = 5,
                     .last_epoch = 2,
                     .committed = RecordedEpoch{1, Of({1})},
                     .proposed = RecordedEpoch{2, Of({1, 2})}};
  LeaderProgress progress = Settled(record);
  progress.preparing = 2;
  progress.prepare = PrepareState::kFailed;
  EXPECT_EQ(NextStep(record, progress, Of({1, 2}), Of({1, 2}).members).kind, Kind::kAbort);
  record.proposed.reset();
  progress.may_propose = false;
  EXPECT_EQ(NextStep(record, progress, Of({1, 2}), Of({1, 2}).members).kind, Kind::kNothing);
  progress.may_propose = true;
  const EpochStep step = NextStep(record, progress, Of({1, 2}), Of({1, 2}).members);
  EXPECT_EQ(step.kind, Kind::kPropose);
  EXPECT_EQ(step.epoch, 3) << "a number is given once";
}

TEST(NextStep, OtherSettingsAreAnotherEpoch) {
  const EpochRecord record{.fence = 5, .last_epoch = 1, .committed = RecordedEpoch{1, Of({1})}};
  const LeaderProgress progress = Settled(record);
  EXPECT_EQ(NextStep(record, progress, Of({1}), Of({1}).members).kind, Kind::kNothing);
  EXPECT_EQ(NextStep(record, progress, Of({1}, "c2"), Of({1}).members).kind, Kind::kPropose);
  EXPECT_EQ(NextStep(record, progress, std::nullopt, Of({1}).members).kind, Kind::kNothing);
}

TEST(NextStep, ALostEpochIsFollowedByOneOfTheSameMembers) {
  const EpochRecord record{.fence = 5, .last_epoch = 4, .committed = RecordedEpoch{3, Of({1, 2})}};
  LeaderProgress progress = Settled(record);
  const auto next = [&] { return NextStep(record, progress, Of({1, 2}), Of({1, 2}).members); };
  progress.lost = 2;
  EXPECT_EQ(next().kind, Kind::kNothing) << "an older one was lost";
  progress.lost = 3;
  EXPECT_EQ(next().kind, Kind::kPropose);
  EXPECT_EQ(next().epoch, 5);
  progress.may_propose = false;
  EXPECT_EQ(next().kind, Kind::kNothing) << "backing off";
  progress.may_propose = true;
  EXPECT_EQ(NextStep(record, progress, std::nullopt, Of({1, 2}).members).kind, Kind::kNothing)
      << "nobody can say with whom";
}

TEST(NextStep, WhoCannotBeToldKeepsNoOtherEpochFromComing) {
  EpochRecord record{.fence = 5, .last_epoch = 3, .committed = RecordedEpoch{3, Of({1, 2})}};
  LeaderProgress progress = Settled(record);
  progress.told = 2;
  const auto next = [&](const EpochContent& wanted) {
    return NextStep(record, progress, wanted, Of({1, 2, 3}).members).kind;
  };
  EXPECT_EQ(next(Of({1, 2})), Kind::kTell);
  EXPECT_EQ(next(Of({1, 3})), Kind::kTell) << "first of all, who waits for it hears of it";
  progress.tell_failed = true;
  EXPECT_EQ(next(Of({1, 2})), Kind::kTell) << "again: nothing else is wanted";
  EXPECT_EQ(next(Of({1, 3})), Kind::kPropose);
  progress.may_propose = false;
  EXPECT_EQ(next(Of({1, 3})), Kind::kTell) << "the pause is one of both";
  progress.may_propose = true;
  progress.lost = 3;
  EXPECT_EQ(next(Of({1, 2})), Kind::kPropose) << "it can never be told";
  // The proposal continues, and another leader's leftovers are removed.
  record.proposed = {4, Of({1, 3})};
  record.last_epoch = 4;
  EXPECT_EQ(next(Of({1, 3})), Kind::kAbort);
  progress.preparing = 4;
  EXPECT_EQ(next(Of({1, 3})), Kind::kPrepare);
  progress.prepare = PrepareState::kDone;
  EXPECT_EQ(next(Of({1, 3})), Kind::kCommit);
}

TEST(NextStep, WhatIsToBeEndedIsEndedBeforeAnythingElseButTheFence) {
  EpochRecord record{.fence = 5,
                     .last_epoch = 4,
                     .committed = RecordedEpoch{3, Of({1, 2})},
                     .proposed = RecordedEpoch{4, Of({1, 2, 3})}};
  LeaderProgress progress = Settled(record);
  progress.told = 2;
  progress.preparing = 4;
  progress.prepare = PrepareState::kDone;
  progress.ends = true;
  const auto next = [&] {
    return NextStep(record, progress, Of({4, 5}), Of({1, 2, 3, 4, 5}).members);
  };
  EXPECT_EQ(next().kind, Kind::kAbort) << "nothing of the old model comes any more";
  EXPECT_EQ(next().epoch, 4);
  record.proposed.reset();
  EXPECT_EQ(next().kind, Kind::kEnd);
  EXPECT_EQ(next().epoch, 3);
  progress.fence = 4;
  EXPECT_EQ(next().kind, Kind::kRaiseFence);
  // As the record is read from now on.
  progress.fence = 5;
  record.committed.reset();
  EXPECT_EQ(next().kind, Kind::kPropose);
  EXPECT_EQ(next().epoch, 5) << "a number is given once";
}

// A record that changes only by compare-and-swap, like an API server's objects.
struct Shared {
  EpochRecord record;
  int64_t version = 0;
  std::set<int64_t> numbers;    // ever proposed
  std::set<int64_t> committed;  // ever
};

// How workers handle fences and epochs (Control).
struct Member {
  int64_t fence = 0;
  int64_t prepared = 0;
  int64_t serving = 0;
  bool holds = false;  // the epoch it serves is lost
  bool hangs = false;  // answers nothing

  bool Take(int64_t call_fence) {
    if (hangs || call_fence < fence) return false;
    fence = call_fence;
    return true;
  }
};

// An operator that reads the record, decides, and acts on what it read: at once, or after others
// have acted. It may be killed before or after any action.
class Leader {
 public:
  Leader(Shared& shared, std::map<InstanceId, Member>& members)
      : shared_(&shared), members_(&members) {}

  void Read() {
    record_ = shared_->record;
    version_ = shared_->version;
  }

  // `loses_calls`: each call may be lost.
  void Act(const EpochContent& wanted, const std::set<InstanceId>& alive, bool loses_calls,
           std::mt19937_64& random) {
    Ask(alive);
    const EpochStep step = NextStep(record_, progress_, wanted, alive);
    const int64_t fence = progress_.fence;
    switch (step.kind) {
      case Kind::kNothing:
        return;
      case Kind::kRaiseFence:
        if (Swap([&](EpochRecord& r) { ++r.fence; })) {
          progress_ = LeaderProgress();
          progress_.fence = record_.fence;
        }
        return;
      case Kind::kTell: {
        bool all = true;
        for (const InstanceId& id : record_.committed->content.members) {
          if (!alive.contains(id)) continue;
          Member& member = (*members_)[id];
          if ((loses_calls && random() % 8 == 0) || !member.Take(fence)) {
            all = false;  // the call was lost or refused
          } else if (member.serving < step.epoch) {
            ASSERT_TRUE(shared_->committed.contains(step.epoch)) << "told before it was decided";
            if (member.prepared == step.epoch) {
              member.serving = step.epoch;
              member.holds = false;
            } else {
              all = false;  // it has prepared another epoch since
            }
          }
        }
        progress_.tell_failed = !all;
        if (all) progress_.told = step.epoch;
        tell_failures_ = all ? 0 : tell_failures_ + 1;
        if (tell_failures_ >= 3) progress_.lost = step.epoch;
        return;
      }
      case Kind::kAbort:
        for (const InstanceId& id : record_.proposed->content.members) {
          if (alive.contains(id) && (*members_)[id].Take(fence) &&
              (*members_)[id].prepared == step.epoch)
            (*members_)[id].prepared = 0;
        }
        Swap([](EpochRecord& r) { r.proposed.reset(); });
        return;
      case Kind::kPropose:
        if (Swap([&](EpochRecord& r) {
              r.proposed = {step.epoch, wanted};
              r.last_epoch = step.epoch;
            })) {
          ASSERT_TRUE(shared_->numbers.insert(step.epoch).second) << "a number was given twice";
          progress_.preparing = step.epoch;
          progress_.prepare = PrepareState::kNone;
        }
        return;
      case Kind::kPrepare:
        progress_.prepare = PrepareState::kDone;
        for (const InstanceId& id : record_.proposed->content.members) {
          if ((loses_calls && random() % 16 == 0) || !(*members_)[id].Take(fence)) {
            progress_.prepare = PrepareState::kFailed;
          } else {
            (*members_)[id].prepared = step.epoch;
          }
        }
        return;
      case Kind::kWait:
        return;
      case Kind::kCommit:
        if (Swap([](EpochRecord& r) {
              r.committed = r.proposed;
              r.proposed.reset();
            })) {
          shared_->committed.insert(step.epoch);
          progress_.tell_failed = false;
          tell_failures_ = 0;
        }
        return;
      case Kind::kEnd:
        FAIL() << "nothing here asks for an end";
    }
  }

 private:
  // Sets whether a member of the committed epoch holds.
  void Ask(const std::set<InstanceId>& alive) {
    if (!record_.committed) return;
    const RecordedEpoch& committed = *record_.committed;
    for (const InstanceId& id : committed.content.members) {
      const Member& member = (*members_)[id];
      if (alive.contains(id) && !member.hangs && member.holds &&
          member.serving == committed.epoch) {
        progress_.lost = committed.epoch;
      }
    }
  }

  template <class Change>
  bool Swap(Change change) {
    if (version_ != shared_->version) return false;
    change(shared_->record);
    ++shared_->version;
    Read();
    return true;
  }

  Shared* shared_;
  std::map<InstanceId, Member>* members_;
  EpochRecord record_;
  int64_t version_ = -1;
  LeaderProgress progress_;
  int tell_failures_ = 0;
};

// Two operators, either of which may act at any time on old data, be killed and restart. Members
// come, go and restart, hang for a while, and lose the epoch that they serve. Calls are lost. In
// the end one operator leads without further events: then the wanted topology is committed, and
// every member serves it without holding.
TEST(NextStep, ConvergesWhoeverLeadsAndWheneverHeIsEnded) {
  for (uint64_t run = 1; run <= 500; ++run) {
    SCOPED_TRACE(run);
    std::mt19937_64 random(MixSeed(TestSeed(), run));
    Shared shared;
    std::map<InstanceId, Member> members;
    std::vector<Leader> leaders(2, Leader(shared, members));
    std::set<InstanceId> alive = {Instance(1), Instance(2)};
    EpochContent wanted = {alive, "c1"};
    for (int round = 0; round < 600; ++round) {
      const bool is_calm = round >= 400;
      if (!is_calm && random() % 10 == 0) {
        if (alive.size() > 1 && random() % 2 == 0) {
          alive.erase(std::next(alive.begin(), static_cast<long>(random() % alive.size())));
        } else {
          alive.insert(Instance(static_cast<int>(random() % 6), static_cast<int>(random() % 50)));
        }
        wanted = {alive, "c" + std::to_string(random() % 3)};
      }
      if (!is_calm && random() % 20 == 0) {
        for (const InstanceId& id : alive) members[id].hangs = random() % 4 == 0;
      }
      if (round == 400) {
        for (auto& [id, member] : members) member.hangs = false;
      }
      // Losses, also of calls, occur in the calm phase until its last hundred rounds.
      if (round < 500 && random() % 30 == 0) {
        const int64_t lost = members[*alive.begin()].serving;
        for (auto& [id, member] : members) {
          if (member.serving == lost) member.holds = lost > 0;
        }
      }
      const size_t who = is_calm ? 0 : random() % 2;
      if (!is_calm && random() % 40 == 0) leaders[who] = Leader(shared, members);
      if (is_calm || random() % 3 != 0) leaders[who].Read();
      leaders[who].Act(wanted, alive, round < 500, random);
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(shared.record.committed);
    EXPECT_EQ(shared.record.committed->content, wanted);
    EXPECT_FALSE(shared.record.proposed);
    for (const InstanceId& id : alive) {
      EXPECT_EQ(members[id].serving, shared.record.committed->epoch) << id.pod_uid;
      EXPECT_FALSE(members[id].holds) << id.pod_uid;
    }
  }
}

}  // namespace
}  // namespace janus::control
