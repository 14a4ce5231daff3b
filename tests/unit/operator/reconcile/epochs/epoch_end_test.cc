#include "operator/reconcile/epochs/epoch_end.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace janus::control {
namespace {

// Records the calls, and holds the state of each.
class HeldCalls final : public MemberCalls {
 public:
  struct State {
    std::string said;
    std::optional<Status> result;
  };

  std::unique_ptr<MemberCall> Prepare(const MemberOrder&, const Topology&, const ServicePlan&,
                                      Wake) override {
    return Add("prepare");
  }
  std::unique_ptr<MemberCall> Commit(const MemberOrder&, Wake) override { return Add("commit"); }
  std::unique_ptr<MemberCall> Abort(const MemberOrder&, Wake) override { return Add("abort"); }
  std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds longest, Wake) override {
    return Add("drain epoch " + std::to_string(order.epoch) + " of " +
               std::to_string(order.members.size()) + " within " +
               std::to_string(static_cast<int>(longest.count())));
  }
  std::unique_ptr<MemberCall> Supersede(const MemberOrder& order, const Successor& successor,
                                        Wake) override {
    return Add("supersede " + std::to_string(order.epoch) + " by " +
               std::to_string(successor.topology.epoch));
  }
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder&, Wake) override { return nullptr; }

  void EndLast(Status result = OkStatus()) { states_.back()->result = std::move(result); }
  // Calls since this was last called.
  std::vector<std::string> Calls() {
    std::vector<std::string> out;
    for (; seen_ < states_.size(); ++seen_) out.push_back(states_[seen_]->said);
    return out;
  }

 private:
  class Call final : public MemberCall {
   public:
    explicit Call(std::shared_ptr<State> state) : state_(std::move(state)) {}
    bool done() const override { return state_->result.has_value(); }
    Status result() const override { return *state_->result; }
    MonotonicTime last_heard() const override { return {}; }

   private:
    const std::shared_ptr<State> state_;
  };

  std::unique_ptr<MemberCall> Add(std::string said) {
    states_.push_back(std::make_shared<State>(State{std::move(said), {}}));
    return std::make_unique<Call>(states_.back());
  }

  std::vector<std::shared_ptr<State>> states_;
  size_t seen_ = 0;
};

using Said = std::vector<std::string>;

class EpochEndTest : public testing::Test {
 protected:
  EpochEndTest() {
    order_.epoch = 4;
    order_.members.resize(3);
    order_.members[0].role = Role::kAttention;
    order_.members[1].role = order_.members[2].role = Role::kExperts;
    Serves(5);
  }

  void Serves(uint64_t epoch) {
    beside_.emplace();
    beside_->successor.topology.epoch = epoch;
  }
  // True if the pods may be deleted, a second later.
  bool Advance() {
    now_ += std::chrono::seconds(1);
    again_.reset();
    return end_.Advance(
        order_, beside_, now_, deadline_, [] {}, again_);
  }
  // Checks the remaining calls, once the current one has succeeded.
  void ExpectTheyDrainAndGo(const std::string& within) {
    EXPECT_EQ(calls_.Calls(), Said{"drain epoch 4 of 1 within " + within});
    calls_.EndLast();
    EXPECT_FALSE(Advance());
    EXPECT_EQ(calls_.Calls(), Said{"drain epoch 5 of 3 within 10"});
    calls_.EndLast();
    EXPECT_TRUE(Advance());
    EXPECT_TRUE(Advance()) << "and it stays so";
    EXPECT_TRUE(calls_.Calls().empty());
  }

  HeldCalls calls_;
  EpochEnd end_{calls_};
  MemberOrder order_;
  std::optional<EpochEnd::Beside> beside_;
  MonotonicTime now_;
  MonotonicTime deadline_ = now_ + std::chrono::seconds(60);
  std::optional<MonotonicTime> again_;
};

TEST_F(EpochEndTest, GatewaysGoOverBeforeTheirMembersDrain) {
  EXPECT_FALSE(Advance());
  EXPECT_EQ(calls_.Calls(), Said{"supersede 4 by 5"});
  beside_->all_follow = true;
  EXPECT_FALSE(Advance());
  EXPECT_TRUE(calls_.Calls().empty()) << "those that read texts alike hear of it from members";
  beside_->all_follow = false;
  calls_.EndLast();
  EXPECT_FALSE(Advance());
  EXPECT_EQ(again_, deadline_) << "nothing else wakes it";
  EXPECT_TRUE(calls_.Calls().empty());
  beside_->all_follow = true;
  EXPECT_FALSE(Advance());
  ExpectTheyDrainAndGo("56");
}

TEST_F(EpochEndTest, WhoDidNotHearIsToldAgain) {
  Advance();
  calls_.Calls();
  calls_.EndLast(Unavailable("no way there"));
  EXPECT_FALSE(Advance());
  EXPECT_TRUE(calls_.Calls().empty()) << "after a pause";
  EXPECT_EQ(again_, now_ + std::chrono::seconds(1));
  EXPECT_FALSE(Advance());
  EXPECT_EQ(calls_.Calls(), Said{"supersede 4 by 5"});
  for (int i = 0; i < 11; ++i) EXPECT_FALSE(Advance());
  EXPECT_EQ(calls_.Calls(), Said{"supersede 4 by 5"}) << "nor for ever does it wait for an answer";
}

TEST_F(EpochEndTest, OfEachEpochThatServesBesideThemTheyAreTold) {
  Advance();
  calls_.Calls();
  calls_.EndLast();
  Advance();
  Serves(6);
  EXPECT_FALSE(Advance());
  EXPECT_EQ(calls_.Calls(), Said{"supersede 4 by 6"});
}

TEST_F(EpochEndTest, AtTheDeadlineTheyGoWhoeverStillAsksThem) {
  Advance();
  calls_.EndLast();
  Advance();
  calls_.Calls();
  now_ = deadline_;
  EXPECT_FALSE(Advance());
  EXPECT_EQ(calls_.Calls(), Said{"drain epoch 5 of 3 within 10"});
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(Advance());
  EXPECT_TRUE(Advance()) << "though they do not answer";
}

TEST_F(EpochEndTest, WhereNothingServesBesideThemTheyDrainAtOnce) {
  beside_.reset();
  EXPECT_FALSE(Advance());
  ExpectTheyDrainAndGo("59");
}

TEST_F(EpochEndTest, WhereNobodyLivesNobodyIsAsked) {
  order_.members.clear();
  EXPECT_TRUE(Advance());
  EXPECT_TRUE(calls_.Calls().empty());
}

}  // namespace
}  // namespace janus::control
