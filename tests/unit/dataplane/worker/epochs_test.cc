// One epoch after another (docs/design/007): the objects of several janus-worker processes in one
// process. They come and go while requests run.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "common/exposition/metrics_text.h"
#include "common/model/config.h"
#include "common/mutex.h"
#include "proto/convert.h"
#include "rpc/channel.h"
#include "tests/support/contains.h"
#include "tests/support/golden.h"
#include "tests/support/raw_caller.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

constexpr const char* kUid = ServiceUnderTest::kUid;
constexpr uint64_t kFence = 1;
constexpr uint32_t kTokens = 300;
const std::vector<uint32_t> kPrompt = {5, 6, 7};
const std::string kKey(16, 'k');

// A member that receives a Commit and never answers, like a process that hangs.
class HangingMember final : public v1::Control::Service {
 public:
  explicit HangingMember(const std::string& address) {
    grpc::ServerBuilder builder;
    AllowIdleCallers(builder);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~HangingMember() override {
    {
      const MutexLock lock(mu_);
      is_over_ = true;
      over_.NotifyAll();
    }
    server_->Shutdown(std::chrono::system_clock::now());
  }

  grpc::Status Commit(grpc::ServerContext*, const v1::CommitRequest*, v1::CommitReply*) override {
    const MutexLock lock(mu_);
    while (!is_over_) over_.Wait(mu_);
    return grpc::Status::CANCELLED;
  }

 private:
  Mutex mu_;
  CondVar over_;
  bool is_over_ JANUS_GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::Server> server_;
};

class EpochsTest : public testing::Test {
 protected:
  // A worker by its name, "attention-0"; started if it does not run.
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
      const auto room = rooms_.find(attention[i]);
      topology.attention[i].sequences =
          room != rooms_.end() ? room->second
                               : SequenceRoom{.max_batch_size = 8, .kv_bytes = 4 << 20};
    }
    for (size_t i = 0; i < experts.size(); ++i) {
      Place(Role::kExperts, experts[i], topology.experts[i]);
    }
    return topology;
  }

  // Moves the service into the next epoch, with these workers by number.
  void Change(const std::vector<int>& attention, const std::vector<int>& experts) {
    const v1::PrepareRequest request = Proposal(++epoch_, attention, experts);
    v1::Control::Stub& relay = At(Role::kAttention, attention.front()).control();
    const v1::PrepareProgress prepared = Prepare(relay, request);
    ASSERT_TRUE(prepared.done());
    ASSERT_EQ(prepared.failures_size(), 0) << prepared.ShortDebugString();
    v1::CommitRequest commit;
    *commit.mutable_stamp() = request.stamp();
    *commit.mutable_relay() = request.relay();
    v1::CommitReply committed;
    grpc::ClientContext context;
    const grpc::Status status = relay.Commit(&context, commit, &committed);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(committed.failures_size(), 0) << committed.ShortDebugString();
  }

  // A relayed Prepare of all members.
  v1::PrepareRequest Proposal(uint64_t epoch, const std::vector<int>& attention,
                              const std::vector<int>& experts) {
    v1::PrepareRequest request;
    *request.mutable_stamp() = StampOf(kUid, kFence, epoch);
    *request.mutable_topology() = ToProto(Compose(epoch, attention, experts));
    *request.mutable_config() = config_;
    for (const int i : attention) AddTarget(Role::kAttention, i, *request.add_relay());
    for (const int i : experts) AddTarget(Role::kExperts, i, *request.add_relay());
    return request;
  }
  void AddTarget(Role role, int number, v1::RelayTarget& target) {
    At(role, number);
    target.set_name(NameOf(role, number));
    target.set_role(role == Role::kAttention ? v1::ROLE_ATTENTION : v1::ROLE_EXPERTS);
    target.set_address(AddressOf(role, number));
  }
  // The last message of the call, or the first one for which `is_enough` is true; then the call is
  // cancelled.
  v1::PrepareProgress Prepare(
      v1::Control::Stub& relay, const v1::PrepareRequest& request,
      const std::function<bool(const v1::PrepareProgress&)>& is_enough = nullptr) {
    grpc::ClientContext context;
    const auto reader = relay.Prepare(&context, request);
    v1::PrepareProgress last;
    while (reader->Read(&last)) {
      if (!is_enough || !is_enough(last)) continue;
      context.TryCancel();
      break;
    }
    prepare_ended_ = reader->Finish();
    return last;
  }

  v1::ToAttention Ask(uint64_t id) const {
    v1::ToAttention message = TestGateway::Submit(id, kPrompt, kTokens);
    message.mutable_submit()->set_ignore_eos(true);
    message.mutable_submit()->set_want_logits_hash(true);
    return message;
  }
  // The answer of a service that never changes.
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
    config.set_debug_logits_hash(true);
    config.set_detection_deadline_ms(2'000);
    return config;
  }();
  uint64_t epoch_ = 0;
  std::map<int, SequenceRoom> rooms_;  // of attention instances with unusual room
  grpc::Status prepare_ended_;         // status of the last Prepare

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

TEST_F(EpochsTest, WhatIsOfAnEpochChangesUnderRunningRequests) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  const std::vector<std::function<void()>> changes = {
      [&] { config_.set_compute_threads(3); },
      [&] { config_.set_machine_threads(12); },
      [&] { config_.set_scheduling(v1::SCHEDULING_POLICY_AEBS_GREEDY); },
      [&] { config_.set_crossover_rows(1); },
      [&] { config_.set_tpot_target_ms(7); },
      [&] { config_.set_queued_requests(3); },
      [&] { config_.set_prefix_sharing(v1::PREFIX_SHARING_DISABLED); },
      [&] { config_.set_detection_deadline_ms(3'000); },
  };
  for (const auto& change : changes) {
    ReadSome(gateway, got, got.tokens_size() + 5);
    change();
    Change({0}, {0, 1});
  }
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
}

TEST_F(EpochsTest, TheNextEpochBoundsTheQueueAnew) {
  Change({0}, {0});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  v1::ToAttention long_one = TestGateway::Submit(1, kPrompt, 900);
  uint64_t id = 0;
  const auto send = [&] {
    long_one.mutable_submit()->set_request_id(++id);
    gateway.Send(long_one);
  };
  // Eight run and four wait, more than the next epoch lets wait. They stay all the same.
  for (int i = 0; i < 12; ++i) send();
  v1::RequestTokens some;
  ReadSome(gateway, some, 8);
  config_.set_queued_requests(2);
  Change({0}, {0});
  send();
  v1::FromAttention refused = gateway.Read();
  while (refused.message_case() == v1::FromAttention::kStep) refused = gateway.Read();
  ASSERT_EQ(refused.message_case(), v1::FromAttention::kRejected);
  EXPECT_EQ(refused.rejected().request_id(), 13u);
  EXPECT_EQ(refused.rejected().code(), static_cast<uint32_t>(StatusCode::kResourceExhausted));
  EXPECT_EQ(At(Role::kAttention, 0).worker().statistics().waiting, 4u);
}

TEST_F(EpochsTest, InstancesOfOneEpochMayHaveDifferentRoomForSequences) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  ReadSome(gateway, got, 20);
  rooms_[1] = {
      .max_batch_size = 2, .max_model_len = 400, .kv_bytes = 8 << 20, .swap_bytes = 1 << 20};
  Change({0, 1}, {0});
  TestGateway other(At(Role::kAttention, 1));
  other.Hello();
  const v1::FromAttention welcome = other.Read();
  EXPECT_EQ(welcome.welcome().max_context_tokens(), 400u);
  other.Send(Ask(1));
  ExpectSame(other.ReadToTheEnd(1), want);
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
}

TEST_F(EpochsTest, WhoLeavesGivesBackWhatAnotherEndsWithTheSameTokens) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0});
  TestGateway stays(At(Role::kAttention, 0));
  stays.Hello();
  v1::RequestTokens got;
  // An answer may end before its instance leaves; then try once more.
  while (!HasFailure() && got.finish_reason() != v1::FINISH_REASON_CANCELLED) {
    got.Clear();
    Change({0, 1}, {0});
    TestGateway leaves(At(Role::kAttention, 1));
    leaves.Hello();
    leaves.Send(Ask(1));
    ReadSome(leaves, got, 40);
    Change({0}, {0});
    v1::DrainRequest drain;
    *drain.mutable_stamp() = StampOf(kUid, kFence, epoch_);
    AddTarget(Role::kAttention, 1, *drain.add_relay());
    v1::DrainReply drained;
    grpc::ClientContext context;
    ASSERT_TRUE(At(Role::kAttention, 0).control().Drain(&context, drain, &drained).ok());
    EXPECT_EQ(drained.failures_size(), 0) << drained.ShortDebugString();
    got.MergeFrom(leaves.ReadToTheEnd(1));
    EXPECT_FALSE(At(Role::kAttention, 1).worker().topology().has_value());
    leaves.Send(Ask(2));
    EXPECT_EQ(leaves.Read().rejected().code(), grpc::StatusCode::UNAVAILABLE);
  }

  v1::ToAttention again = Ask(1);
  again.mutable_submit()->set_attempt(2);
  *again.mutable_submit()->mutable_generated_tokens() = got.tokens();
  got.set_finish_reason(v1::FINISH_REASON_NONE);
  const int replayed = got.tokens_size();
  stays.Send(again);
  got.MergeFrom(stays.ReadToTheEnd(1));
  ExpectSame(got, want);
  EXPECT_TRUE(Contains(PrometheusText(At(Role::kAttention, 0).worker().metrics()),
                       "janus_replayed_tokens_total{role=\"attention\",rank=\"0\"} " +
                           std::to_string(replayed) + "\n"));
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
  // Its gateways hear that it waits, so that another pool may continue; one without requests, too.
  TestGateway idle(At(Role::kAttention, 0));
  idle.Hello();
  ASSERT_TRUE(idle.Read().has_welcome());
  const auto await = [&](TestGateway& of, bool holding) {
    for (;;) {
      const v1::FromAttention message = of.Read();
      ASSERT_NE(message.message_case(), v1::FromAttention::MESSAGE_NOT_SET);
      if (&of == &gateway) {
        for (const v1::RequestTokens& some : message.step().requests()) got.MergeFrom(some);
      }
      if (message.has_step() && message.step().holding() == holding) return;
    }
  };
  await(gateway, true);
  gateway.Send(Ask(2));  // it may come
  gateway.Send(Ask(3));  // and may go
  v1::ToAttention cancel;
  cancel.mutable_cancel()->set_request_id(3);
  cancel.mutable_cancel()->set_attempt(1);
  gateway.Send(cancel);
  await(idle, true);
  Change({0}, {0, 2});
  await(idle, false);
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

TEST_F(EpochsTest, WhatIsForLifeTakesNewWorkers) {
  Change({0}, {0});
  const auto prepare = [&](Role role) {
    return At(role, 0).worker().Prepare({kUid, kFence, 2}, Compose(2, {0}, {0}), config_, kKey,
                                        [](const auto&) { return false; });
  };
  rooms_[0] = {.max_batch_size = 4, .kv_bytes = 4 << 20};
  const Status refused = prepare(Role::kAttention);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.ToString();
  EXPECT_TRUE(Contains(refused.message(), "this instance has max_batch_size 8"));
  EXPECT_TRUE(Contains(refused.message(), "max_batch_size 4"));
  EXPECT_EQ(prepare(Role::kExperts).code(), StatusCode::kCancelled) << "it is none of theirs";
  rooms_.clear();
  const v1::WorkerConfig served = config_;
  v1::WorkerConfig computes, holds, sends, emulates;
  computes = holds = sends = emulates = served;
  computes.set_dtype(v1::DTYPE_BFLOAT16);
  holds.set_fp8_kv_cache(true);
  sends.set_compression(v1::COMPRESSION_FP8);
  emulates.mutable_timed()->set_hardware("H200");
  for (const v1::WorkerConfig& config : {computes, holds, sends, emulates}) {
    config_ = config;
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const Status other = prepare(role);
      EXPECT_EQ(other.code(), StatusCode::kFailedPrecondition) << other.ToString();
      EXPECT_TRUE(Contains(other.message(), "new workers")) << other.ToString();
    }
  }
}

TEST_F(EpochsTest, WhoCannotPrepareIsNamedAndTheOthersDropTheEpoch) {
  Change({0}, {0});
  v1::PrepareRequest request = Proposal(2, {0}, {0, 1});
  Kill(Role::kExperts, 1);
  const v1::PrepareProgress answer = Prepare(At(Role::kAttention, 0).control(), request);
  EXPECT_TRUE(prepare_ended_.ok()) << "the call itself did what it can";
  EXPECT_TRUE(answer.done());
  ASSERT_EQ(answer.failures_size(), 1) << answer.ShortDebugString();
  EXPECT_EQ(answer.failures(0).name(), "experts-1");
  EXPECT_EQ(answer.failures(0).code(), grpc::StatusCode::UNAVAILABLE);
  // The failed epoch is dropped everywhere: the next one is accepted.
  epoch_ = 2;
  Change({0}, {0, 2});
}

TEST_F(EpochsTest, AnOperatorThatGoesAwayEndsWhatItHadPrepared) {
  Change({0}, {0});
  v1::PrepareRequest request = Proposal(2, {0}, {0, 1});
  // One of two expert instances gets no Prepare: the attention instance waits for it.
  request.mutable_relay()->RemoveLast();
  const v1::PrepareProgress last =
      Prepare(At(Role::kAttention, 0).control(), request, [](const v1::PrepareProgress& progress) {
        return progress.waiting_for_size() == 1 &&
               progress.waiting_for(0) == "attention-0 (connect)";
      });
  EXPECT_EQ(last.waiting_for_size(), 1) << last.ShortDebugString();
  EXPECT_EQ(prepare_ended_.error_code(), grpc::StatusCode::CANCELLED);
  epoch_ = 2;
  Change({0}, {0, 1});
}

TEST_F(EpochsTest, AnOlderLeaderIsRefusedByWhoRelaysBeforeAnybodyHears) {
  Change({0}, {0});
  v1::CommitRequest newer;
  *newer.mutable_stamp() = StampOf(kUid, kFence + 1, epoch_);
  AddTarget(Role::kExperts, 0, *newer.add_relay());
  v1::CommitReply reply;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(At(Role::kAttention, 0).control().Commit(&context, newer, &reply).ok());
  }
  EXPECT_EQ(At(Role::kAttention, 0).worker().fence(), kFence + 1) << "though it is no target";
  Prepare(At(Role::kAttention, 0).control(), Proposal(2, {0}, {0, 1}));
  EXPECT_EQ(prepare_ended_.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(At(Role::kExperts, 1).worker().fence(), 0U);
}

TEST_F(EpochsTest, AnExpertInstanceRelaysNothing) {
  Prepare(At(Role::kExperts, 0).control(), Proposal(1, {0}, {0}));
  EXPECT_EQ(prepare_ended_.error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(EpochsTest, StatisticsAreOfAllThatAnswerAndNameWhoDoesNot) {
  Change({0, 1}, {0});
  v1::GetStatisticsRequest request;
  request.set_service_uid(kUid);
  AddTarget(Role::kAttention, 0, *request.add_relay());
  AddTarget(Role::kAttention, 1, *request.add_relay());
  AddTarget(Role::kExperts, 0, *request.add_relay());
  Kill(Role::kAttention, 1);
  v1::Statistics all;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20)));
  ASSERT_TRUE(At(Role::kAttention, 0).control().GetStatistics(&context, request, &all).ok());
  EXPECT_EQ(all.epoch(), 1U);
  EXPECT_EQ(all.instances_size(), 2);
  ASSERT_EQ(all.silent_size(), 1);
  EXPECT_EQ(all.silent(0).name(), "attention-1");
  EXPECT_NE(all.silent(0).why(), "");
  for (const v1::InstanceStatistics& one : all.instances()) EXPECT_EQ(one.epoch(), 1U);
}

TEST_F(EpochsTest, AQuestionThatWaitsForALossIsAnsweredByIt) {
  Change({0}, {0, 1});
  v1::GetStatisticsRequest request;
  request.set_service_uid(kUid);
  request.set_until_loss_ms(10'000);
  AddTarget(Role::kAttention, 0, *request.add_relay());
  AddTarget(Role::kExperts, 0, *request.add_relay());
  v1::Statistics all;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(60)));
  std::jthread asker([&] {
    EXPECT_TRUE(At(Role::kAttention, 0).control().GetStatistics(&context, request, &all).ok());
  });
  Kill(Role::kExperts, 1);
  asker.join();
  ASSERT_EQ(all.instances_size(), 2);
  EXPECT_NE(all.instances(0).holding(), "") << "it did not wait for the loss";
}

TEST_F(EpochsTest, OneMemberTellsWhatAllGatewaysHaveCounted) {
  Change({0, 1}, {0});
  const auto report = [](TestGateway& gateway, uint64_t reports, uint64_t arrived) {
    v1::ToAttention message;
    message.mutable_counts()->set_reports(reports);
    message.mutable_counts()->set_arrived(arrived);
    gateway.Send(message);
  };
  const auto statistics = [&] {
    v1::GetStatisticsRequest request;
    request.set_service_uid(kUid);
    for (const int i : {0, 1}) AddTarget(Role::kAttention, i, *request.add_relay());
    AddTarget(Role::kExperts, 0, *request.add_relay());
    v1::Statistics all;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20)));
    EXPECT_TRUE(At(Role::kAttention, 0).control().GetStatistics(&context, request, &all).ok());
    return FromProto(all);
  };
  // Streams end and are read on threads of their own.
  const auto comes_to = [&](const std::string& wanted) {
    std::string seen;
    const auto deadline = std::chrono::steady_clock::now() + Scaled(std::chrono::seconds(20));
    while (std::chrono::steady_clock::now() < deadline) {
      seen.clear();
      for (const GatewayCounts& one : statistics().gateways.gateways) {
        seen +=
            one.gateway_id + (one.is_attached ? ":" : " gone:") + std::to_string(one.arrived) + " ";
      }
      if (seen == wanted) break;
    }
    return seen;
  };
  auto a = std::make_unique<TestGateway>(At(Role::kAttention, 0));
  a->Hello(kUid, 10, "a");
  TestGateway a_at_1(At(Role::kAttention, 1));
  a_at_1.Hello(kUid, 10, "a");
  TestGateway b(At(Role::kAttention, 1));
  b.Hello(kUid, 10, "b");
  report(*a, 2, 20);
  report(a_at_1, 1, 10);
  report(b, 1, 7);
  EXPECT_EQ(comes_to("a:20 b:7 "), "a:20 b:7 ") << "the newer report of the two instances";
  a.reset();
  EXPECT_EQ(comes_to("a:20 b:7 "), "a:20 b:7 ") << "attached to the other";
  a_at_1.Finish();
  EXPECT_EQ(comes_to("a gone:20 b:7 "), "a gone:20 b:7 ");

  const Statistics all = statistics();
  ASSERT_EQ(all.instances.size(), 3U);
  std::set<uint64_t> processes;
  for (const InstanceStatistics& one : all.instances) {
    ASSERT_TRUE(one.load);
    processes.insert(one.load->process);
  }
  EXPECT_EQ(processes.size(), 3U);
  EXPECT_FALSE(processes.contains(0));
}

TEST_F(EpochsTest, EveryRoutedRowIsToldOfOnceOverAllMembersAndEpochs) {
  // A change of epoch also waits for the end of the previous epoch's steps.
  const std::vector<std::vector<int>> experts = {{0}, {1, 0}, {0, 1, 2}};
  v1::Statistics all;
  for (size_t i = 0; i < experts.size(); ++i) {
    Change({0}, experts[i]);
    v1::GetStatisticsRequest request;
    request.set_service_uid(kUid);
    request.set_with_popularity(true);
    request.set_with_rounds(4);
    AddTarget(Role::kAttention, 0, *request.add_relay());
    for (const int e : experts[i]) AddTarget(Role::kExperts, e, *request.add_relay());
    grpc::ClientContext context;
    all.Clear();
    ASSERT_TRUE(At(Role::kAttention, 0).control().GetStatistics(&context, request, &all).ok());
    const RoutingStatistics routing = FromProto(all).routing;
    ASSERT_EQ(routing.popularity.size(),
              i == 0 ? 0 : static_cast<size_t>(description_.moe_layers()));
    const auto positions = i * (kPrompt.size() + kTokens - 1);
    for (const LayerPopularity& one : routing.popularity) {
      EXPECT_EQ(one.rows, positions) << "layer " << one.layer;
      EXPECT_EQ(std::accumulate(one.tokens.begin(), one.tokens.end(), uint64_t{0}),
                positions * static_cast<uint64_t>(description_.moe.top_k));
    }
    EXPECT_LE(routing.rounds.size(), 4U);
    EXPECT_EQ(routing.rounds.empty(), i == 0);
    std::set<std::pair<uint64_t, uint64_t>> seen;
    for (const RoutedRound& round : routing.rounds) {
      EXPECT_TRUE(
          seen.insert({round.epoch, round.step * 256 + static_cast<uint64_t>(round.layer)}).second);
      EXPECT_LT(round.epoch, epoch_);
    }
    TestGateway gateway(At(Role::kAttention, 0));
    gateway.Hello();
    gateway.Send(Ask(i + 1));
    ASSERT_EQ(gateway.ReadToTheEnd(i + 1).finish_reason(), v1::FINISH_REASON_LENGTH);
  }
  // Without the request there is no routing in the answer.
  v1::GetStatisticsRequest request;
  request.set_service_uid(kUid);
  AddTarget(Role::kExperts, 0, *request.add_relay());
  grpc::ClientContext context;
  ASSERT_TRUE(At(Role::kAttention, 0).control().GetStatistics(&context, request, &all).ok());
  EXPECT_EQ(all.popularity_size() + all.rounds_size(), 0);
}

TEST_F(EpochsTest, AllMembersTellOfOneStep) {
  Change({0}, {0, 1});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  ASSERT_EQ(gateway.ReadToTheEnd(1).finish_reason(), v1::FINISH_REASON_LENGTH);
  const auto traces = [&](uint32_t spans) {
    v1::GetStatisticsRequest request;
    request.set_service_uid(kUid);
    request.set_with_spans(spans);
    AddTarget(Role::kAttention, 0, *request.add_relay());
    for (const int e : {0, 1}) AddTarget(Role::kExperts, e, *request.add_relay());
    grpc::ClientContext context;
    v1::Statistics all;
    EXPECT_TRUE(At(Role::kAttention, 0).control().GetStatistics(&context, request, &all).ok());
    return FromProto(all).traces;
  };
  EXPECT_TRUE(traces(0).empty());
  std::vector<StepTrace> all = traces(1 << 16);
  ASSERT_EQ(all.size(), 3U);
  std::vector<StepTrace> aligned = all;
  EXPECT_EQ(AlignClocks(aligned), 0) << "they have one clock";
  EXPECT_EQ(aligned, all) << "attention first, and nothing was moved";
  for (const StepTrace& one : all) {
    EXPECT_EQ(one.epoch, epoch_);
    EXPECT_EQ(one.step, all[0].step);
    EXPECT_EQ(one.step % 16, 0U);
    std::set<int> sends, waits;
    for (const StepSpan& span : one.spans) {
      if (span.work == StepWork::kSend) sends.insert(span.layer);
      if (span.work == StepWork::kReceive) waits.insert(span.layer);
    }
    EXPECT_EQ(sends.size(), static_cast<size_t>(description_.moe_layers()));
    EXPECT_EQ(waits, sends);
  }
  // With less room each tells of the same layers.
  std::set<int> layers;
  for (const StepTrace& one : traces(1)) {
    for (const StepSpan& span : one.spans) layers.insert(span.layer);
  }
  EXPECT_EQ(layers, std::set{(description_.moe_layers() - 1) / 2});
}

TEST_F(EpochsTest, StatisticsSayOfWhichEpochTheyAre) {
  Worker& worker = At(Role::kExperts, 0).worker();
  EXPECT_EQ(worker.statistics().epoch, 0U) << "none";
  const v1::PrepareRequest request = Proposal(1, {0}, {0});
  EXPECT_EQ(Prepare(At(Role::kAttention, 0).control(), request).failures_size(), 0);
  EXPECT_EQ(worker.statistics().epoch, 0U) << "prepared is not served";
  Change({0}, {0});
  EXPECT_EQ(worker.statistics().epoch, epoch_);
}

TEST_F(EpochsTest, AnExpertInstanceThatHangsKeepsNobodyFromHearingOfACommit) {
  Change({0}, {0});
  const v1::PrepareRequest request = Proposal(2, {0}, {0});
  EXPECT_EQ(Prepare(At(Role::kAttention, 0).control(), request).failures_size(), 0);
  const HangingMember hanging(AddressOf(Role::kExperts, 9));
  v1::CommitRequest commit;
  *commit.mutable_stamp() = request.stamp();
  *commit.mutable_relay() = request.relay();
  v1::RelayTarget& hangs = *commit.add_relay();
  hangs.set_name(NameOf(Role::kExperts, 9));
  hangs.set_role(v1::ROLE_EXPERTS);
  hangs.set_address(AddressOf(Role::kExperts, 9));
  v1::CommitReply reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(12)));
  ASSERT_TRUE(At(Role::kAttention, 0).control().Commit(&context, commit, &reply).ok());
  ASSERT_EQ(reply.failures_size(), 1) << reply.ShortDebugString();
  EXPECT_EQ(reply.failures(0).name(), "experts-9");
  EXPECT_EQ(At(Role::kAttention, 0).worker().topology()->epoch, 2U);
  EXPECT_EQ(At(Role::kExperts, 0).worker().topology()->epoch, 2U);
}

TEST_F(EpochsTest, WhoIsToEndStaysUntilTheServiceCanDoWithoutIt) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0, 1});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  Worker& expert = At(Role::kExperts, 1).worker();
  expert.Depart();
  ReadSome(gateway, got, 40);
  EXPECT_FALSE(expert.HasDeparted());
  Change({0}, {0});
  v1::DrainRequest drain;
  *drain.mutable_stamp() = StampOf(kUid, kFence, epoch_);
  grpc::ClientContext context;
  v1::DrainReply drained;
  ASSERT_TRUE(At(Role::kExperts, 1).control().Drain(&context, drain, &drained).ok());
  EXPECT_TRUE(expert.HasDeparted());
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
}

// A HELLO of experts 0 with a stale part, as a former member could send it.
TEST_F(EpochsTest, AfterAChangeAStaleEpochOrKeyIsRefusedAndCountedAndRequestsGoOn) {
  const v1::RequestTokens want = Undisturbed();
  Change({0}, {0});
  TestGateway gateway(At(Role::kAttention, 0));
  gateway.Hello();
  gateway.Send(Ask(1));
  v1::RequestTokens got;
  ReadSome(gateway, got, 20);
  Change({0}, {0, 1});
  const auto say = [&](const std::string& address, uint64_t epoch) {
    ExchangeIdentity identity;
    identity.epoch = epoch;
    identity.epoch_key.fill(std::byte{'k'});
    TransportLayout layout;
    layout.self = {Role::kExperts, Rank{0}};
    const Fd stranger = DialExchange(address);
    EXPECT_TRUE(
        Say(stranger, BytesOf(MakeHello(identity, layout, PairTransport::kSharedMemory, 0))));
    const std::optional<Hello> answer = Answer(stranger);
    return answer ? RefusalText(*answer) : "closed without a word";
  };
  for (const auto& [role, number] :
       {std::pair{Role::kAttention, 0}, {Role::kExperts, 0}, {Role::kExperts, 1}}) {
    SCOPED_TRACE(NameOf(role, number));
    Instance place;
    Place(role, number, place);
    ServedWorker& worker = At(role, number);
    EXPECT_EQ(worker.refused("exchange_epoch"), 0);
    EXPECT_TRUE(Contains(say(place.exchange_address, epoch_ - 1),
                         "has epoch " + std::to_string(epoch_ - 1)));
    EXPECT_EQ(worker.refused("exchange_epoch"), 1);
    EXPECT_EQ(worker.refused("exchange_key"), 0);
    EXPECT_TRUE(Contains(say(place.exchange_address, epoch_), "has another epoch key"));
    EXPECT_EQ(worker.refused("exchange_key"), 1);
    EXPECT_EQ(say(place.exchange_address, epoch_ + 1), "closed without a word");
    for (const char* const other :
         {"exchange_malformed", "exchange_timeout", "exchange_overflow", "exchange_member"}) {
      EXPECT_EQ(worker.refused(other), 0) << other;
    }
  }
  got.MergeFrom(gateway.ReadToTheEnd(1));
  ExpectSame(got, want);
  // A worker that has left still knows the last committed epoch.
  Change({0}, {0});
  At(Role::kExperts, 1).worker().Leave(epoch_);
  Instance place;
  Place(Role::kExperts, 1, place);
  EXPECT_TRUE(Contains(say(place.exchange_address, epoch_ - 1), "has another epoch key"));
  EXPECT_EQ(At(Role::kExperts, 1).refused("exchange_key"), 2);
}

TEST_F(EpochsTest, AServiceThatEndsAsAWholeWaitsForItsGatewaysAlone) {
  Change({0, 1}, {0});
  auto gateway = std::make_unique<TestGateway>(At(Role::kAttention, 0));
  gateway->Hello();
  gateway->Send(Ask(1));
  v1::RequestTokens got;
  ReadSome(*gateway, got, 10);
  std::vector<Worker*> all = {&At(Role::kAttention, 0).worker(), &At(Role::kAttention, 1).worker(),
                              &At(Role::kExperts, 0).worker()};
  for (Worker* const one : all) one->Depart();
  EXPECT_FALSE(all[0]->HasDeparted());
  EXPECT_TRUE(all[1]->HasDeparted()) << "neither gateway nor request";
  gateway.reset();
  for (Worker* const one : all) {
    while (!one->HasDeparted()) std::this_thread::yield();
    one->Leave(epoch_);
  }
}

}  // namespace
}  // namespace janus::dataplane
