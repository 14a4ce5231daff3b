#include "operator/local/embedded/watched_calls.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

constexpr MonotonicTime kHeard{std::chrono::hours(3)};

// The progress of each Prepare equals its epoch.
class Calls final : public MemberCalls {
 public:
  std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology&, const ServicePlan&,
                                      Wake wake) override {
    wake();
    return std::make_unique<Call>(order.epoch, alive);
  }
  std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake) override {
    commits += 1;
    return std::make_unique<Call>(order.epoch, alive);
  }
  std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake) override {
    aborts += 1;
    return std::make_unique<Call>(order.epoch, alive);
  }
  std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds, Wake) override {
    drains += 1;
    return std::make_unique<Call>(order.epoch, alive);
  }
  std::unique_ptr<MemberCall> Supersede(const MemberOrder& order, const Successor&, Wake) override {
    supersedes += 1;
    return std::make_unique<Call>(order.epoch, alive);
  }
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder&, Wake) override {
    questions += 1;
    return nullptr;
  }

  int alive = 0;
  int commits = 0;
  int aborts = 0;
  int drains = 0;
  int supersedes = 0;
  int questions = 0;

 private:
  class Call final : public MemberCall {
   public:
    Call(int64_t epoch, int& alive) : epoch_(epoch), alive_(alive) { ++alive_; }
    ~Call() override { --alive_; }
    bool done() const override { return epoch_ == 9; }
    Status result() const override { return Unavailable("epoch 9"); }
    PrepareProgress progress() const override {
      return {"weights", static_cast<uint64_t>(epoch_), 100};
    }
    MonotonicTime last_heard() const override { return kHeard; }
    std::string waiting_for() const override { return "expert-1"; }

   private:
    const int64_t epoch_;
    int& alive_;
  };
};

class WatchedCallsTest : public testing::Test {
 protected:
  std::unique_ptr<MemberCall> Prepare(int64_t epoch) {
    return watched_.Prepare(Order(epoch), {}, {}, [this] { ++wakes_; });
  }
  static MemberOrder Order(int64_t epoch) {
    MemberOrder out;
    out.epoch = epoch;
    return out;
  }
  uint64_t BytesDone() { return watched_.progress().bytes_done; }

  Calls calls_;
  WatchedCalls watched_{calls_};
  int wakes_ = 0;
};

TEST_F(WatchedCallsTest, TellsHowFarThePrepareIs) {
  EXPECT_EQ(watched_.progress().bytes_total, 0u);
  const std::unique_ptr<MemberCall> call = Prepare(3);
  EXPECT_EQ(watched_.progress().phase, "weights");
  EXPECT_EQ(watched_.progress().bytes_done, 3u);
  EXPECT_EQ(watched_.progress().bytes_total, 100u);
  EXPECT_EQ(wakes_, 1);
}

TEST_F(WatchedCallsTest, OfTheNewestAloneUntilItIsDestroyed) {
  std::unique_ptr<MemberCall> old = Prepare(3);
  std::unique_ptr<MemberCall> newest = Prepare(4);
  EXPECT_EQ(BytesDone(), 4u);
  old.reset();
  EXPECT_EQ(BytesDone(), 4u);
  newest.reset();
  EXPECT_EQ(watched_.progress().bytes_total, 0u);
  EXPECT_EQ(calls_.alive, 0);  // destroying cancels
}

TEST_F(WatchedCallsTest, AnOlderOneDoesNotComeBack) {
  const std::unique_ptr<MemberCall> old = Prepare(3);
  Prepare(4).reset();
  EXPECT_EQ(watched_.progress().bytes_total, 0u);
}

TEST_F(WatchedCallsTest, CallsAreWhatTheyAreWithoutAnEar) {
  const std::unique_ptr<MemberCall> call = Prepare(9);
  EXPECT_TRUE(call->done());
  EXPECT_EQ(call->result().message(), "epoch 9");
  EXPECT_EQ(call->progress().bytes_done, 9u);
  EXPECT_EQ(call->last_heard(), kHeard);
  EXPECT_EQ(call->waiting_for(), "expert-1");
  EXPECT_FALSE(Prepare(1)->done());
  // Other calls do not change the progress.
  const std::unique_ptr<MemberCall> commit = watched_.Commit(Order(5), [] {});
  const std::unique_ptr<MemberCall> abort = watched_.Abort(Order(6), [] {});
  const std::unique_ptr<MemberCall> drain = watched_.Drain(Order(6), Seconds(1), [] {});
  EXPECT_EQ(calls_.drains, 1);
  EXPECT_EQ(calls_.commits, 1);
  EXPECT_EQ(calls_.aborts, 1);
  watched_.Ask(Order(1), [] {});
  EXPECT_EQ(calls_.questions, 1);
  EXPECT_EQ(watched_.progress().bytes_total, 0u);
}

}  // namespace
}  // namespace janus::control
