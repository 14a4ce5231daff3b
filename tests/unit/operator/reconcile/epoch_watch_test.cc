#include "operator/reconcile/epoch_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "operator/reconcile/topology_record.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

// Members that answer what the test says, when it says so.
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
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake) override {
    ++questions;
    asked = order.epoch;
    answer = std::make_shared<Answer>();
    return std::make_unique<Question>(answer);
  }

  int questions = 0;
  int64_t asked = 0;
  std::shared_ptr<Answer> answer;  // of the last question

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
  // When it wants to be looked at again.
  MonotonicTime LookAt(int second) {
    MemberOrder order;
    order.epoch = record_.epoch;
    order.members = record_.instances;
    std::optional<MonotonicTime> again;
    watch_.Look(
        order, record_, At(second), [] {}, again);
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
  LookAt(20);
  EXPECT_EQ(watch_.why_lost(), "experts-9 holds its requests: attention 0 is gone")
      << "what was heard first is nearest to the cause";
  record_.epoch = 8;
  LookAt(21);
  EXPECT_EQ(watch_.why_lost(), "") << "another epoch";
  EXPECT_EQ(members_.asked, 8);
}

TEST_F(EpochWatchTest, WhoIsSilentIsKnownSinceTheFirstTimeInARow) {
  const InstanceId silent = IdOf(record_.instances[2]);
  LookAt(0);
  Answer({}, {{"experts-9", "no answer"}});
  LookAt(5);
  EXPECT_EQ(watch_.SilentSince(silent), At(5));
  EXPECT_FALSE(watch_.SilentSince(IdOf(record_.instances[1])));
  EXPECT_EQ(watch_.why_lost(), "") << "it may serve all the same";
  // Nobody heard the question: of the members nothing new is known.
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

}  // namespace
}  // namespace janus::control
