// One epoch after another (docs/design/007): the objects of janus-worker processes in one, which
// come and go while requests run.

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "common/model/config.h"
#include "proto/convert.h"
#include "tests/support/contains.h"
#include "tests/support/golden.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

constexpr const char* kUid = ServiceUnderTest::kUid;
constexpr uint64_t kFence = 1;
constexpr uint32_t kTokens = 300;
const std::vector<uint32_t> kPrompt = {5, 6, 7};
const std::string kKey(16, 'k');

class EpochsTest : public testing::Test {
 protected:
  // A worker by its name, "attention-0"; started where there is none.
  ServedWorker& At(Role role, int number) {
    std::unique_ptr<ServedWorker>& worker = workers_[NameOf(role, number)];
    if (worker == nullptr) {
      worker = std::make_unique<ServedWorker>(
          WorkerFlags{role, model_, AddressOf(role, number), kUid}, clock_, [](const Status&) {});
    }
    return *worker;
  }
  void Kill(Role role, int number) { workers_.erase(NameOf(role, number)); }

  Topology Compose(uint64_t epoch, const std::vector<int>& attention,
                   const std::vector<int>& experts) const {
    const int count = description_.moe.experts;
    Topology topology =
        MakeTopology(static_cast<int>(attention.size()), std::vector<int>(experts.size(), count),
                     description_.layers, count);
    topology.epoch = epoch;
    for (size_t i = 0; i < attention.size(); ++i) {
      Place(Role::kAttention, attention[i], topology.attention[i]);
    }
    for (size_t i = 0; i < experts.size(); ++i) {
      Place(Role::kExperts, experts[i], topology.experts[i]);
    }
    return topology;
  }

  // Brings the service into the next epoch, of these workers by number.
  void Change(const std::vector<int>& attention, const std::vector<int>& experts) {
    const Topology topology = Compose(++epoch_, attention, experts);
    std::vector<ServedWorker*> members;
    for (const int i : attention) members.push_back(&At(Role::kAttention, i));
    for (const int i : experts) members.push_back(&At(Role::kExperts, i));
    std::vector<Status> prepared(members.size());
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < members.size(); ++i) {
        threads.emplace_back([&, i] {
          prepared[i] = members[i]->worker().Prepare({kUid, kFence, epoch_}, topology, config_,
                                                     kKey, [](const auto&) { return true; });
        });
      }
    }
    for (const Status& status : prepared) ASSERT_TRUE(status.ok()) << status.ToString();
    for (ServedWorker* const member : members) {
      const Status committed = member->worker().Commit({kUid, kFence, epoch_});
      ASSERT_TRUE(committed.ok()) << committed.ToString();
    }
  }

  v1::ToAttention Ask(uint64_t id) const {
    v1::ToAttention message = TestGateway::Submit(id, kPrompt, kTokens);
    message.mutable_submit()->set_ignore_eos(true);
    message.mutable_submit()->set_want_logits_hash(true);
    return message;
  }
  // What a service that never changes answers.
  v1::RequestTokens Undisturbed() {
    Change({7}, {7});
    TestGateway gateway(At(Role::kAttention, 7));
    gateway.Hello();
    gateway.Send(Ask(1));
    v1::RequestTokens answer = gateway.ReadToTheEnd(1);
    workers_.clear();
    return answer;
  }

  v1::WorkerConfig config_ = [] {
    v1::WorkerConfig config;
    config.set_max_batch_size(8);
    config.set_kv_bytes(4 << 20);
    config.set_debug_logits_hash(true);
    config.set_detection_deadline_ms(2'000);
    return config;
  }();
  uint64_t epoch_ = 0;

 private:
  static std::string NameOf(Role role, int number) {
    return std::string(ToString(role)) + "-" + std::to_string(number);
  }
  std::string AddressOf(Role role, int number) const {
    return "unix:" + folder_.path() + "/" + NameOf(role, number) + ".sock";
  }
  void Place(Role role, int number, Instance& instance) const {
    instance.role = role;
    instance.address = AddressOf(role, number);
    instance.exchange_address = "unix:" + folder_.path() + "/" + NameOf(role, number) + ".x";
  }

  const TempFolder folder_;
  const std::string model_ = ReadGolden("mixtral").folder;
  const ModelDescription description_ = *LoadModelConfig(model_);
  const SystemClock clock_;
  std::map<std::string, std::unique_ptr<ServedWorker>> workers_;
};

void ExpectSame(const v1::RequestTokens& got, const v1::RequestTokens& want) {
  ASSERT_EQ(got.finish_reason(), v1::FINISH_REASON_LENGTH) << got.error();
  EXPECT_EQ(std::vector(got.tokens().begin(), got.tokens().end()),
            std::vector(want.tokens().begin(), want.tokens().end()));
  EXPECT_EQ(std::vector(got.logits_hashes().begin(), got.logits_hashes().end()),
            std::vector(want.logits_hashes().begin(), want.logits_hashes().end()));
}

// Reads on until so many tokens of the request are there.
void ReadSome(TestGateway& gateway, v1::RequestTokens& all, int tokens) {
  while (all.tokens_size() < tokens) {
    const v1::FromAttention message = gateway.Read();
    ASSERT_NE(message.message_case(), v1::FromAttention::MESSAGE_NOT_SET);
    for (const v1::RequestTokens& some : message.step().requests()) all.MergeFrom(some);
    ASSERT_EQ(all.finish_reason(), v1::FINISH_REASON_NONE);
  }
}

TEST_F(EpochsTest, RequestsGoOnWithTheSameTokensWhateverJoinsAndLeavesBesideThem) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  using Members = std::pair<std::vector<int>, std::vector<int>>;
  const std::vector<Members> changes = {
      {{0}, {0, 1}}, {{0, 1}, {1}}, {{1, 0}, {0, 1, 2}}, {{0}, {2}}, {{0}, {2, 0}}};
  for (size_t i = 0; i < changes.size(); ++i) {
    ReadSome(gateway, got, static_cast<int>(20 * (i + 1)));
    Change(changes[i].first, changes[i].second);
  }
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
  EXPECT_EQ(At(Role::kAttention, 0).worker().topology()->epoch, epoch_);
  const InstanceStatistics statistics = At(Role::kAttention, 0).worker().statistics();
  EXPECT_EQ(statistics.tokens, kTokens) << "of all epochs";
  EXPECT_EQ(statistics.holding, "");
}

TEST_F(EpochsTest, WhoLeavesGivesBackWhatAnotherEndsWithTheSameTokens) {
  const v1::RequestTokens want = Undisturbed();
  Change({0, 1}, {0});
  TestGateway stays(At(Role::kAttention, 0)), leaves(At(Role::kAttention, 1));
  for (TestGateway* const gateway : {&stays, &leaves}) gateway->Hello();
  leaves.Send(Ask(1));
  v1::RequestTokens got;
  ReadSome(leaves, got, 40);
  Worker& leaver = At(Role::kAttention, 1).worker();
  Change({0}, {0});
  ASSERT_TRUE(
      leaver.Drain({kUid, kFence, epoch_}, MonotonicClock::now(), [] { return true; }).ok());
  got.MergeFrom(leaves.ReadToTheEnd(1));
  EXPECT_EQ(got.finish_reason(), v1::FINISH_REASON_CANCELLED);
  EXPECT_FALSE(leaver.topology().has_value());
  leaves.Send(Ask(2));
  EXPECT_EQ(leaves.Read().rejected().code(), grpc::StatusCode::UNAVAILABLE);

  v1::ToAttention again = Ask(1);
  again.mutable_submit()->set_attempt(2);
  *again.mutable_submit()->mutable_generated_tokens() = got.tokens();
  got.set_finish_reason(v1::FINISH_REASON_NONE);
  stays.Send(again);
  got.MergeFrom(stays.ReadToTheEnd(1));
  ExpectSame(got, want);
  Change({0, 1}, {0});  // and back again
  TestGateway back(At(Role::kAttention, 1));
  back.Hello();
  back.Send(Ask(3));
  ExpectSame(back.ReadToTheEnd(3), want);
}

TEST_F(EpochsTest, WhatLosesAPeerHoldsItsRequestsForTheNextEpoch) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0, 1});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  ReadSome(gateway, got, 30);
  Kill(Role::kExperts, 1);
  Worker& attention = At(Role::kAttention, 0).worker();
  while (attention.statistics().holding.empty()) std::this_thread::yield();
  EXPECT_TRUE(Contains(attention.statistics().holding, "experts 1"))
      << attention.statistics().holding;
  gateway.Send(Ask(2));  // it may come
  gateway.Send(Ask(3));  // and may go
  v1::ToAttention cancel;
  cancel.mutable_cancel()->set_request_id(3);
  cancel.mutable_cancel()->set_attempt(1);
  gateway.Send(cancel);
  Change({0}, {0, 2});
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
}

TEST_F(EpochsTest, AnAbortedEpochLeavesTheServingOneAsItIs) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  ReadSome(gateway, got, 20);
  Worker& worker = At(Role::kAttention, 0).worker();
  const Topology next = Compose(epoch_ + 1, {0}, {0, 1});
  bool connects = false;
  const Status prepared = worker.Prepare({kUid, kFence, epoch_ + 1}, next, config_, kKey,
                                         [&](const PrepareProgress& progress) {
                                           connects = connects || progress.phase == "connect";
                                           return !connects;
                                         });
  EXPECT_EQ(prepared.code(), StatusCode::kCancelled);
  EXPECT_TRUE(worker.Abort({kUid, kFence, epoch_ + 1}).ok());
  EXPECT_EQ(worker.Commit({kUid, kFence, epoch_ + 1}).code(), StatusCode::kFailedPrecondition);
  ++epoch_;
  Change({0}, {0, 1});
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
}

TEST_F(EpochsTest, AnotherConfigurationTakesNewWorkers) {
  Change({0}, {0});
  config_.set_max_batch_size(4);
  const Status refused = At(Role::kAttention, 0)
                             .worker()
                             .Prepare({kUid, kFence, 2}, Compose(2, {0}, {0}), config_, kKey,
                                      [](const auto&) { return true; });
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.ToString();
  EXPECT_TRUE(Contains(refused.message(), "new workers"));
}

}  // namespace
}  // namespace janus::dataplane
