#include "operator/reconcile/epochs/epoch_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "operator/api/tree.h"
#include "operator/reconcile/epochs/topology_record.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

// Members that answer what the test says, and when it says so.
class AskedMembers final : public MemberCalls {
 public:
  struct Answer {
    bool is_there = false;
    Status result;
    Statistics statistics;
  };

  std::unique_ptr<MemberCall> Prepare(const MemberOrder&, const Topology&, const ServicePlan&,
                                      Wake) override {
    ADD_FAILURE() << "a look prepares nothing";
    return nullptr;
  }
  std::unique_ptr<MemberCall> Commit(const MemberOrder&, Wake) override {
    ADD_FAILURE() << "a look commits nothing";
    return nullptr;
  }
  std::unique_ptr<MemberCall> Abort(const MemberOrder&, Wake) override {
    ADD_FAILURE() << "a look aborts nothing";
    return nullptr;
  }
  std::unique_ptr<MemberCall> Drain(const MemberOrder&, Seconds, Wake) override {
    ADD_FAILURE() << "a look drains nobody";
    return nullptr;
  }
  std::unique_ptr<MemberCall> Supersede(const MemberOrder&, const Successor&, Wake) override {
    ADD_FAILURE() << "a look is no change";
    return nullptr;
  }
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake) override {
    ++questions;
    orders.push_back(order);
    asked = order.epoch;
    counts = order.with_popularity;
    answer = std::make_shared<Answer>();
    answers.push_back(answer);
    return std::make_unique<Question>(answer);
  }

  int questions = 0;
  int64_t asked = 0;
  bool counts = false;             // the last question asks for popularity
  std::shared_ptr<Answer> answer;  // to the last question
  std::vector<MemberOrder> orders;
  std::vector<std::shared_ptr<Answer>> answers;  // to all questions

 private:
  class Question final : public StatisticsQuestion {
   public:
    explicit Question(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
    bool done() const override { return answer_->is_there; }
    Status result() const override { return answer_->result; }
    MonotonicTime last_heard() const override { return {}; }
    Statistics statistics() const override { return answer_->statistics; }

   private:
    const std::shared_ptr<Answer> answer_;
  };
};

TopologyInstance Member(Role role, int id) {
  TopologyInstance out;
  out.role = role;
  out.node = "chat-" + std::string(ToString(role)) + "-r-" + std::to_string(id);
  out.pod_uid = out.node;
  out.address = "unix:/run/" + out.node;
  return out;
}

InstanceStatistics Said(Role role, int rank, uint64_t epoch, const std::string& holding = "") {
  InstanceStatistics out;
  out.role = role;
  out.rank = Rank{rank};
  out.epoch = epoch;
  out.holding = holding;
  return out;
}

class EpochWatchTest : public testing::Test {
 protected:
  EpochWatchTest() {
    record_.epoch = 7;
    record_.instances = {Member(Role::kAttention, 4), Member(Role::kExperts, 2),
                         Member(Role::kExperts, 9)};
  }
  // Looks at the members; returns when to look again.
  MonotonicTime LookAt(int second) {
    MemberOrder order;
    order.epoch = record_.epoch;
    order.members = record_.instances;
    std::optional<MonotonicTime> again;
    watch_.Look(
        order, record_, every_, At(second), [] {}, again);
    EXPECT_TRUE(again && *again > At(second));
    return again.value_or(MonotonicTime());
  }
  void Answer(std::vector<InstanceStatistics> instances, std::vector<SilentMember> silent = {}) {
    members_.answer->statistics.instances = std::move(instances);
    members_.answer->statistics.silent = std::move(silent);
    members_.answer->is_there = true;
  }
  static MonotonicTime At(int second) { return MonotonicTime(seconds(1000 + second)); }

  AskedMembers members_;
  EpochWatch watch_{members_};
  TopologyRecord record_;
  std::chrono::milliseconds every_ = kLookEvery;
};

TEST_F(EpochWatchTest, AsksOneQuestionAtATimeAndGivesUpOnOneThatNobodyAnswers) {
  EXPECT_EQ(LookAt(0), At(5));
  EXPECT_EQ(members_.questions, 1);
  EXPECT_EQ(members_.asked, 7);
  LookAt(1);
  EXPECT_EQ(LookAt(6), At(10)) << "it is still out";
  EXPECT_EQ(members_.questions, 1);
  EXPECT_EQ(LookAt(10), At(15));
  EXPECT_EQ(members_.questions, 2);
  Answer({});
  EXPECT_EQ(LookAt(12), At(15));
  EXPECT_EQ(members_.questions, 2);
  LookAt(15);
  EXPECT_EQ(members_.questions, 3);
}

TEST_F(EpochWatchTest, AMemberThatHoldsInThisEpochIsNamed) {
  LookAt(0);
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kExperts, 0, 7), Said(Role::kExperts, 1, 7)});
  LookAt(5);
  EXPECT_EQ(watch_.why_lost(), "");
  Answer({Said(Role::kAttention, 0, 6, "an older epoch's"), Said(Role::kExperts, 0, 0),
          Said(Role::kExperts, 1, 6, "an older epoch's")});
  LookAt(10);
  EXPECT_EQ(watch_.why_lost(), "");
  Answer({Said(Role::kExperts, 1, 7, "attention 0 is gone")});
  LookAt(15);
  EXPECT_EQ(watch_.why_lost(), "experts-9 holds its requests: attention 0 is gone");
  Answer({Said(Role::kAttention, 0, 7, "experts 1 is gone"), Said(Role::kExperts, 1, 7, "x")});
  EXPECT_EQ(LookAt(16), At(16) + kLookAtLostEvery)
      << "the next epoch may wait for a member that starts again";
  LookAt(20);
  EXPECT_EQ(watch_.why_lost(), "experts-9 holds its requests: attention 0 is gone")
      << "what was heard first is nearest to the cause";
  record_.epoch = 8;
  LookAt(21);
  EXPECT_EQ(watch_.why_lost(), "") << "another epoch";
  EXPECT_EQ(members_.asked, 8);
}

TEST_F(EpochWatchTest, AQuestionWaitsForALossOnceTheMembersHaveAnswered) {
  LookAt(0);
  EXPECT_EQ(members_.orders.back().until_loss.count(), 0) << "who serves is said at once";
  Answer({Said(Role::kAttention, 0, 7)});
  LookAt(5);
  EXPECT_EQ(members_.orders.back().until_loss, kLookEvery - kBeforeNextLook);
  Answer({Said(Role::kAttention, 0, 7, "experts 1 is gone")});
  LookAt(6);
  LookAt(7);
  EXPECT_EQ(members_.questions, 3);
  EXPECT_EQ(members_.orders.back().until_loss.count(), 0) << "it is lost already";
}

TEST_F(EpochWatchTest, IsAskedMoreOftenForDecisionsThatComeMoreOften) {
  record_.instances.insert(record_.instances.begin() + 1, Member(Role::kAttention, 5));
  every_ = seconds(2);
  LookAt(0);
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kAttention, 1, 7)});
  EXPECT_EQ(LookAt(1), At(2));
  LookAt(2);
  ASSERT_EQ(members_.questions, 4) << "all, and two about themselves";
  for (const MemberOrder& order : std::span(members_.orders).subspan(1)) {
    EXPECT_EQ(order.until_loss, seconds(2) - kBeforeNextLook);
  }
  EXPECT_EQ(LookAt(3), At(4));
}

TEST_F(EpochWatchTest, IfTheRelayHangsAnotherMemberReportsTheLoss) {
  record_.instances.insert(record_.instances.begin() + 1, Member(Role::kAttention, 5));
  LookAt(0);
  EXPECT_EQ(members_.questions, 1) << "nothing to wait for yet";
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kAttention, 1, 7)});
  LookAt(5);
  ASSERT_EQ(members_.questions, 4);
  EXPECT_EQ(members_.orders[1].members.size(), 4u);
  for (const auto& [order, node] :
       {std::pair{2u, "chat-attention-r-4"}, std::pair{3u, "chat-attention-r-5"}}) {
    ASSERT_EQ(members_.orders[order].members.size(), 1u);
    EXPECT_EQ(members_.orders[order].members[0].node, node);
    EXPECT_EQ(members_.orders[order].until_loss, kLookEvery - kBeforeNextLook);
  }
  // The relay of the question does not answer.
  Answer({Said(Role::kAttention, 1, 7, "attention 0 did not end the missed step")});
  LookAt(7);
  ASSERT_EQ(members_.questions, 5) << "at once, through the member that answers";
  EXPECT_EQ(members_.orders[4].until_loss.count(), 0);
  EXPECT_EQ(members_.orders[4].members.size(), 4u);
  EXPECT_EQ(members_.orders[4].members[0].node, "chat-attention-r-5");
  Answer({Said(Role::kAttention, 1, 7, "attention 0 did not end the missed step")},
         {{"attention-4", "deadline"}});
  LookAt(8);
  EXPECT_EQ(watch_.why_lost(),
            "attention-5 holds its requests: attention 0 did not end the missed step");
  EXPECT_EQ(watch_.SilentSince(IdOf(record_.instances[0])), At(8));
}

// The relay is chosen elsewhere, so it may be any attention instance, the last one too.
TEST_F(EpochWatchTest, IfTheLastInstanceIsTheRelayAndHangsTheFirstReportsTheLoss) {
  record_.instances.insert(record_.instances.begin() + 1, Member(Role::kAttention, 5));
  LookAt(0);
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kAttention, 1, 7)});
  LookAt(5);
  ASSERT_EQ(members_.questions, 4);
  AskedMembers::Answer& first = *members_.answers[2];
  first.statistics.instances = {Said(Role::kAttention, 0, 7, "attention 1 did not end the step")};
  first.is_there = true;
  LookAt(7);
  ASSERT_EQ(members_.questions, 5);
  EXPECT_EQ(members_.orders[4].members.size(), 4u);
  EXPECT_EQ(members_.orders[4].members[0].node, "chat-attention-r-4");
}

TEST_F(EpochWatchTest, TheOtherMemberIsAskedWhenItIsDueThoughTheRelayIsAskedLater) {
  record_.instances.insert(record_.instances.begin() + 1, Member(Role::kAttention, 5));
  LookAt(0);
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kAttention, 1, 7)});
  LookAt(5);
  Answer({Said(Role::kAttention, 1, 7)});
  LookAt(12);  // asks the other one again
  LookAt(15);  // gives the relay's question up and asks it anew
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kAttention, 1, 7)});
  EXPECT_EQ(LookAt(16), At(17));
}

TEST_F(EpochWatchTest, AnAnswerOfNoMemberIsOverdueSoonAfterItsTime) {
  LookAt(0);
  Answer({Said(Role::kAttention, 0, 7)});
  LookAt(5);
  EXPECT_FALSE(watch_.Seen(At(10)).is_overdue) << "it waits for a loss";
  EXPECT_EQ(LookAt(10), At(5) + kLookEvery - kBeforeNextLook + kOverdueAfter);
  EXPECT_TRUE(watch_.Seen(At(11)).is_overdue);
  EXPECT_EQ(LookAt(11), At(15));
  LookAt(15);
  EXPECT_TRUE(watch_.Seen(At(16)).is_overdue) << "the next question is no answer";
  Answer({Said(Role::kAttention, 0, 7)});
  LookAt(17);
  EXPECT_FALSE(watch_.Seen(At(17)).is_overdue);
}

TEST_F(EpochWatchTest, WhoIsSilentIsKnownSinceTheFirstTimeInARow) {
  const InstanceId silent = IdOf(record_.instances[2]);
  LookAt(0);
  Answer({}, {{"experts-9", "no answer"}});
  LookAt(5);
  EXPECT_EQ(watch_.SilentSince(silent), At(5));
  EXPECT_FALSE(watch_.SilentSince(IdOf(record_.instances[1])));
  EXPECT_EQ(watch_.why_lost(), "") << "it may serve all the same";
  // The question reached no member: nothing new is known of them.
  members_.answer->result = Unavailable("attention-4: connection refused");
  members_.answer->is_there = true;
  LookAt(10);
  EXPECT_EQ(watch_.SilentSince(silent), At(5));
  Answer({}, {{"experts-9", "no answer"}});
  LookAt(15);
  EXPECT_EQ(watch_.SilentSince(silent), At(5));
  Answer({});
  LookAt(20);
  EXPECT_FALSE(watch_.SilentSince(silent));
}

TEST_F(EpochWatchTest, WhetherAllAnswerIsKnownAfterFourQuestionsInVain) {
  using enum EpochWatch::Answers;
  EXPECT_EQ(watch_.answers(At(0)), kUnknown);
  LookAt(0);
  EXPECT_EQ(watch_.answers(At(4)), kUnknown);
  EXPECT_FALSE(watch_.Serves(0));
  Answer({Said(Role::kAttention, 0, 7), Said(Role::kExperts, 0, 7), Said(Role::kExperts, 1, 6)});
  LookAt(5);
  EXPECT_EQ(watch_.answers(At(5)), kAll);
  EXPECT_EQ(watch_.Serves(0), true);
  EXPECT_EQ(watch_.Serves(1), true);
  EXPECT_EQ(watch_.Serves(2), false);
  EXPECT_FALSE(watch_.Serves(3));
  Answer({Said(Role::kAttention, 0, 7)}, {{"experts-2", "deadline"}, {"experts-9", "deadline"}});
  LookAt(10);
  EXPECT_EQ(watch_.answers(At(29)), kUnknown);
  EXPECT_EQ(watch_.answers(At(30)), kNotAll);
  EXPECT_EQ(watch_.why_unanswered(), "experts-2 does not answer: deadline; and 1 more");
  EXPECT_EQ(watch_.Serves(1), true) << "what it said last";
  Answer({Said(Role::kAttention, 0, 7)});
  LookAt(15);
  EXPECT_EQ(watch_.answers(At(40)), kAll);
  EXPECT_EQ(watch_.Serves(1), false);

  // The question reaches no member.
  members_.answer->result = Unavailable("attention-4: connection refused");
  members_.answer->is_there = true;
  LookAt(20);
  EXPECT_EQ(watch_.answers(At(30)), kUnknown);
  EXPECT_EQ(watch_.answers(At(35)), kNotAll);
  EXPECT_EQ(watch_.why_unanswered(),
            "none of the members that are asked for all answers: attention-4: connection refused");
  LookAt(30);  // the next question does not end either
  EXPECT_EQ(watch_.answers(At(35)), kNotAll);
  EXPECT_EQ(watch_.why_unanswered(), "no answer within 10 s");
  Answer({});
  LookAt(35);
  EXPECT_EQ(watch_.answers(At(35)), kAll);
  record_.epoch = 8;
  LookAt(36);
  EXPECT_EQ(watch_.answers(At(36)), kUnknown) << "another epoch";
}

TEST_F(EpochWatchTest, WhatIsCountedIsAskedForOnceAMinuteAndIsOfThatMinute) {
  Topology topology;
  topology.epoch = 7;
  for (const TopologyInstance& one : record_.instances) {
    Instance instance;
    instance.role = one.role;
    (one.role == Role::kAttention ? topology.attention : topology.experts).push_back(instance);
  }
  topology.experts[0].slots = topology.experts[1].slots = 2;
  topology.placement = {1, {2, 2}, {0, 1, 2, 3}};
  const Node tree = RecordTree(topology);
  record_.placement = tree.Find("placement")->text;
  record_.instances[1].slots = record_.instances[2].slots = 2;

  const auto answer = [&](uint64_t tokens, std::vector<LayerPopularity> popularity) {
    InstanceStatistics attention = Said(Role::kAttention, 0, 7);
    attention.tokens = tokens;
    Answer({attention, Said(Role::kExperts, 0, 7), Said(Role::kExperts, 1, 7)});
    members_.answer->statistics.routing.popularity = std::move(popularity);
  };
  LookAt(0);
  EXPECT_TRUE(members_.counts) << "at once";
  answer(100, {{0, 8, {6, 0, 1, 1}}});
  LookAt(5);
  EXPECT_FALSE(members_.counts);
  EXPECT_EQ(watch_.imbalance_permille(), 1500) << "of all their life";
  EXPECT_FALSE(watch_.tokens_per_second());
  for (int second = 10; second < 60; second += 5) {
    answer(9999, {});
    LookAt(second);
    EXPECT_FALSE(members_.counts) << second;
  }
  answer(9999, {});
  LookAt(60);
  EXPECT_TRUE(members_.counts);
  answer(1300, {{0, 12, {6, 0, 4, 2}}});
  LookAt(65);
  EXPECT_EQ(watch_.imbalance_permille(), 2000) << "all that has come was for the second";
  EXPECT_EQ(watch_.tokens_per_second(), 20);
  answer(0, {});
  LookAt(120);
  answer(1300, {{0, 12, {6, 0, 4, 2}}});
  LookAt(125);
  EXPECT_EQ(watch_.imbalance_permille(), 2000) << "nothing new is known";
  EXPECT_EQ(watch_.tokens_per_second(), 0);
  answer(0, {});
  LookAt(180);
  // A member has left, and its counts with it.
  answer(700, {{0, 12, {0, 3, 0, 1}}});
  LookAt(185);
  EXPECT_EQ(watch_.imbalance_permille(), 1500);
  EXPECT_EQ(watch_.tokens_per_second(), 0);
  answer(0, {});
  LookAt(240);
  // Without the silent members the counts are incomplete.
  Answer({Said(Role::kAttention, 0, 7)}, {{"experts-9", "deadline"}});
  members_.answer->statistics.routing.popularity = {{0, 12, {40, 3, 0, 1}}};
  LookAt(245);
  EXPECT_EQ(watch_.imbalance_permille(), 1500);
}

TEST_F(EpochWatchTest, ARunOfTimedDevicesIsVoidByWhatTheLastMinuteOverran) {
  const auto count_at = [&](int second, uint64_t waits, uint64_t overruns) {
    LookAt(second);
    ASSERT_TRUE(members_.counts) << second;
    InstanceStatistics attention = Said(Role::kAttention, 0, 7);
    attention.timed_waits = waits;
    attention.timed_overruns = overruns;
    Answer({attention, Said(Role::kExperts, 0, 7), Said(Role::kExperts, 1, 7)});
    LookAt(second + 5);
  };
  count_at(0, 100, 90);
  EXPECT_FALSE(watch_.is_void()) << "that is of all their life";
  count_at(60, 1100, 100);
  EXPECT_FALSE(watch_.is_void()) << "one in a hundred";
  count_at(120, 2100, 111);
  EXPECT_TRUE(watch_.is_void());
  EXPECT_TRUE(watch_.Seen(At(125)).is_void);
  count_at(180, 2100, 111);
  EXPECT_TRUE(watch_.is_void()) << "nothing new is known";
  count_at(240, 3100, 111);
  EXPECT_FALSE(watch_.is_void());
}

TEST_F(EpochWatchTest, WhatRequestsTookIsOfTheLastMinuteInWhichSomeEnded) {
  LatencyCounts counts;
  const auto count_at = [&](int second, std::initializer_list<double> took) {
    for (const double one : took) counts.Add(Seconds(one));
    LookAt(second);
    ASSERT_TRUE(members_.counts) << second;
    InstanceStatistics attention = Said(Role::kAttention, 0, 7);
    attention.tpot_counts = attention.ttft_counts = counts;
    Answer({attention, Said(Role::kExperts, 0, 7), Said(Role::kExperts, 1, 7)});
    LookAt(second + 5);
  };
  const auto sum = [](const LatencyCounts& of) {
    uint64_t all = 0;
    for (const uint64_t some : of.counts) all += some;
    return all;
  };
  count_at(0, {9, 9, 9});
  EXPECT_EQ(sum(watch_.tpot()), 0u) << "that is of all their life";
  count_at(60, {0.02, 0.02});
  EXPECT_EQ(sum(watch_.tpot()), 2u);
  EXPECT_EQ(watch_.ttft(), watch_.tpot());
  EXPECT_NEAR(watch_.tpot().Percentile(1)->count(), 0.02, 0.002);
  count_at(120, {});
  EXPECT_EQ(sum(watch_.tpot()), 2u) << "nothing new is known";
  counts = {};  // the counting member is gone, and another has replaced it
  count_at(180, {0.5});
  EXPECT_EQ(sum(watch_.tpot()), 2u) << "nothing says since when";
  count_at(240, {0.5});
  EXPECT_EQ(sum(watch_.tpot()), 1u);
  watch_.Forget();
  EXPECT_EQ(sum(watch_.tpot()), 0u);
}

}  // namespace
}  // namespace janus::control
