#include "operator/members/grpc_member_calls.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "operator/members/connections.h"
#include "proto/control.grpc.pb.h"
#include "rpc/channel.h"
#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

// A worker that relays as the test says, and records its calls.
class ScriptedRelay final : public v1::Control::Service {
 public:
  explicit ScriptedRelay(const std::string& address) : address_(address) {
    grpc::ServerBuilder builder;
    AllowIdleCallers(builder);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedRelay() override {
    Release();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  grpc::Status Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                       grpc::ServerWriter<v1::PrepareProgress>* writer) override {
    {
      const MutexLock lock(mu_);
      prepare = *request;
    }
    v1::PrepareProgress progress;
    progress.set_phase("weights");
    progress.set_bytes_done(5);
    progress.set_bytes_total(10);
    progress.add_waiting_for("experts at x (weights)");
    writer->Write(progress);
    if (!Held(*context)) return grpc::Status::CANCELLED;
    if (!ends_early) {
      v1::PrepareProgress last;
      last.set_done(true);
      *last.mutable_failures() = Failures();
      writer->Write(last);
    }
    return status;
  }
  grpc::Status Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                      v1::CommitReply* reply) override {
    {
      const MutexLock lock(mu_);
      commit = *request;
    }
    if (!Held(*context)) return grpc::Status::CANCELLED;
    *reply->mutable_failures() = Failures();
    return status;
  }
  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest* request,
                     v1::AbortReply* reply) override {
    const MutexLock lock(mu_);
    abort = *request;
    *reply->mutable_failures() = Failures();
    return status;
  }

  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainReply* reply) override {
    {
      const MutexLock lock(mu_);
      drain = *request;
    }
    if (!Held(*context)) return grpc::Status::CANCELLED;
    *reply->mutable_failures() = Failures();
    return status;
  }
  grpc::Status Supersede(grpc::ServerContext*, const v1::SupersedeRequest* request,
                         v1::SupersedeReply* reply) override {
    const MutexLock lock(mu_);
    supersede = *request;
    *reply->mutable_failures() = Failures();
    return status;
  }
  grpc::Status GetStatistics(grpc::ServerContext*, const v1::GetStatisticsRequest* request,
                             v1::Statistics* reply) override {
    const MutexLock lock(mu_);
    question = *request;
    *reply = statistics;
    return status;
  }

  void Hold() { held_ = true; }
  void Release() {
    held_ = false;
    held_.notify_all();
  }

  // Set before a call, read after it.
  std::vector<v1::MemberFailure> failures;
  grpc::Status status;
  bool ends_early = false;
  v1::PrepareRequest prepare;
  v1::CommitRequest commit;
  v1::AbortRequest abort;
  v1::DrainRequest drain;
  v1::SupersedeRequest supersede;
  v1::GetStatisticsRequest question;
  v1::Statistics statistics;
  std::atomic<bool> was_cancelled = false;

 private:
  google::protobuf::RepeatedPtrField<v1::MemberFailure> Failures() const {
    return {failures.begin(), failures.end()};
  }
  // False: the caller is gone.
  bool Held(const grpc::ServerContext& context) {
    const MutexLock lock(mu_);
    while (held_ && !context.IsCancelled()) {
      changed_.WaitUntil(mu_, MonotonicClock::now() + std::chrono::milliseconds(5));
    }
    was_cancelled = context.IsCancelled();
    return !was_cancelled;
  }

  const std::string address_;
  Mutex mu_;
  CondVar changed_;
  std::atomic<bool> held_ = false;
  std::unique_ptr<grpc::Server> server_;
};

class GrpcMemberCallsTest : public testing::Test {
 protected:
  std::string AddressOf(const std::string& name) const {
    return "unix:" + folder_.path() + "/" + name;
  }
  TopologyInstance Member(Role role, const std::string& name) const {
    TopologyInstance one;
    one.role = role;
    one.node = "demo-" + std::string(ToString(role)) + "-r-" + name.substr(1);
    one.address = AddressOf(name);
    return one;
  }
  MemberOrder Order() const {
    MemberOrder order;
    order.service = {"shop", "demo"};
    order.service_uid = "uid-1";
    order.fence = 3;
    order.epoch = 7;
    order.members = {Member(Role::kAttention, "a0"), Member(Role::kAttention, "a1"),
                     Member(Role::kExperts, "e0")};
    return order;
  }
  MemberCalls::Wake Count() {
    return [this] {
      ++woken_;
      woken_.notify_all();
    };
  }
  Status ResultOf(const MemberCall& call) {
    woken_.wait(0);
    EXPECT_TRUE(call.done());
    woken_ = 0;
    return call.result();
  }

  const TempFolder folder_;
  std::atomic<int> woken_ = 0;
  GrpcMemberCalls calls_{{.most_connections = 256, .one_machine = true}};
};

TEST_F(GrpcMemberCallsTest, PrepareGoesToTheFirstAttentionInstanceForAll) {
  ScriptedRelay relay(AddressOf("a0"));
  Topology topology;
  topology.epoch = 7;
  topology.attention.resize(2);
  topology.experts.resize(1);
  ServicePlan plan;
  plan.queued_requests = 32;
  plan.compute_threads = 2;
  relay.Hold();
  const auto call = calls_.Prepare(Order(), topology, plan, Count());
  while (call->waiting_for().empty()) std::this_thread::yield();
  EXPECT_FALSE(call->done());
  EXPECT_EQ(call->waiting_for(), "experts at x (weights)");
  EXPECT_EQ(call->progress().bytes_done, 5U);
  EXPECT_EQ(call->progress().bytes_total, 10U);
  EXPECT_EQ(woken_, 0) << "there is nothing to do yet";
  relay.Release();
  EXPECT_TRUE(ResultOf(*call).ok());
  const v1::PrepareRequest& said = relay.prepare;
  EXPECT_EQ(said.stamp().service_uid(), "uid-1");
  EXPECT_EQ(said.stamp().fence(), 3U);
  EXPECT_EQ(said.stamp().epoch(), 7U);
  EXPECT_EQ(said.topology().epoch(), 7U);
  EXPECT_EQ(said.config().queued_requests(), 32U);
  EXPECT_EQ(said.config().machine_threads(), 6U);
  EXPECT_EQ(said.epoch_key(), "") << "members draw it";
  ASSERT_EQ(said.relay_size(), 3);
  EXPECT_EQ(said.relay(1).address(), AddressOf("a1"));
  EXPECT_EQ(said.relay(2).role(), v1::ROLE_EXPERTS);
  EXPECT_EQ(said.relay(2).name(), "experts-0");
}

TEST_F(GrpcMemberCallsTest, CommitNamesWhoLeaves) {
  ScriptedRelay relay(AddressOf("a0"));
  MemberOrder order = Order();
  order.leavers = {Member(Role::kExperts, "e1")};
  EXPECT_TRUE(ResultOf(*calls_.Commit(order, Count())).ok());
  EXPECT_EQ(relay.commit.relay_size(), 3);
  ASSERT_EQ(relay.commit.leavers_size(), 1);
  EXPECT_EQ(relay.commit.leavers(0).address(), AddressOf("e1"));
}

TEST_F(GrpcMemberCallsTest, MembersAreToldWhoServesInTheirPlace) {
  ScriptedRelay relay(AddressOf("a0"));
  Topology topology;
  topology.epoch = 8;
  topology.attention.resize(3);
  topology.attention[2].address = "10.0.0.9:9000";
  EXPECT_TRUE(ResultOf(*calls_.Supersede(Order(), {topology, "text-2"}, Count())).ok());
  EXPECT_EQ(relay.supersede.stamp().epoch(), 7U) << "their own";
  EXPECT_EQ(relay.supersede.successor().epoch(), 8U);
  ASSERT_EQ(relay.supersede.successor().attention_size(), 3);
  EXPECT_EQ(relay.supersede.successor().attention(2).address(), "10.0.0.9:9000");
  EXPECT_EQ(relay.supersede.text_digest(), "text-2");
  EXPECT_EQ(relay.supersede.relay_size(), 3);
  relay.failures.resize(1);
  relay.failures[0].set_name("attention-1");
  relay.failures[0].set_code(static_cast<uint32_t>(StatusCode::kUnavailable));
  relay.failures[0].set_message("has gone");
  EXPECT_FALSE(ResultOf(*calls_.Supersede(Order(), {topology, "text-2"}, Count())).ok());
}

// The reply comes when the last request has ended, so the call's timeout includes that.
TEST_F(GrpcMemberCallsTest, ADrainWaitsForAsLongAsItMayTake) {
  ScriptedRelay relay(AddressOf("a0"));
  relay.Hold();
  const auto call = calls_.Drain(Order(), Seconds(1000), Count());
  const auto last = calls_.Supersede(Order(), {Topology(), ""}, Count());
  woken_.wait(0);
  EXPECT_TRUE(last->done());
  EXPECT_FALSE(call->done());
  woken_ = 0;
  relay.Release();
  EXPECT_TRUE(ResultOf(*call).ok());
  EXPECT_EQ(relay.drain.stamp().fence(), 3U);
  EXPECT_EQ(relay.drain.relay_size(), 3);
}

TEST_F(GrpcMemberCallsTest, AMemberThatFailedIsNamedWithItsOwnWords) {
  ScriptedRelay relay(AddressOf("a0"));
  relay.failures.resize(2);
  relay.failures[0].set_name("experts-0 (pod demo-experts-r-0, 10.0.0.3:9000)");
  relay.failures[0].set_code(static_cast<uint32_t>(StatusCode::kResourceExhausted));
  relay.failures[0].set_message("needs 93 GB");
  relay.failures[1].set_name("attention-1");
  relay.failures[1].set_message("cancelled");
  const Status result = ResultOf(*calls_.Abort(Order(), Count()));
  EXPECT_EQ(result.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(result.message(),
            "experts-0 (pod demo-experts-r-0, 10.0.0.3:9000): needs 93 GB; and 1 more, first "
            "attention-1: cancelled");
}

TEST_F(GrpcMemberCallsTest, AfterACallThatDidNotComeThroughTheNextAttentionInstanceIsAsked) {
  const Status lost = ResultOf(*calls_.Commit(Order(), Count()));
  EXPECT_EQ(lost.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(lost.message().starts_with("attention-0: ")) << lost.message();
  ScriptedRelay other(AddressOf("a1"));
  EXPECT_TRUE(ResultOf(*calls_.Commit(Order(), Count())).ok());
  EXPECT_EQ(other.commit.stamp().epoch(), 7U);
  // A refusal did arrive: it is the answer, so no other member is asked.
  other.status = grpc::Status(grpc::StatusCode::ABORTED, "fence 3 is older");
  EXPECT_EQ(ResultOf(*calls_.Commit(Order(), Count())).code(), StatusCode::kAborted);
  other.status = grpc::Status::OK;
  EXPECT_TRUE(ResultOf(*calls_.Commit(Order(), Count())).ok());
}

// Like a restarted container: no backoff of a failed connection delays the call.
TEST_F(GrpcMemberCallsTest, WhoComesUpIsReachedAtOnceHoweverOftenItWasNot) {
  MemberOrder order = Order();
  order.members = {Member(Role::kAttention, "a0")};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ResultOf(*calls_.Commit(order, Count())).code(), StatusCode::kUnavailable);
  }
  const ScriptedRelay relay(AddressOf("a0"));
  const Status reached = ResultOf(*calls_.Commit(order, Count()));
  EXPECT_TRUE(reached.ok()) << reached.message();
}

TEST_F(GrpcMemberCallsTest, APrepareThatEndsWithoutItsLastWordIsNone) {
  ScriptedRelay relay(AddressOf("a0"));
  relay.ends_early = true;
  const Status result = ResultOf(*calls_.Prepare(Order(), Topology(), ServicePlan(), Count()));
  EXPECT_EQ(result.code(), StatusCode::kUnavailable) << result.ToString();
}

TEST_F(GrpcMemberCallsTest, ACallThatIsDestroyedIsCancelledAndWakesNobody) {
  ScriptedRelay relay(AddressOf("a0"));
  relay.Hold();
  auto call = calls_.Prepare(Order(), Topology(), ServicePlan(), Count());
  while (call->waiting_for().empty()) std::this_thread::yield();
  call.reset();
  while (!relay.was_cancelled) std::this_thread::yield();
  EXPECT_EQ(woken_, 0);
}

TEST_F(GrpcMemberCallsTest, AQuestionIsForAllAndWakesOnlyForWhatIsToBeDone) {
  ScriptedRelay relay(AddressOf("a0"));
  v1::InstanceStatistics& first = *relay.statistics.add_instances();
  first.mutable_load()->set_process(9);
  first.mutable_load()->set_decode_rows(4);
  v1::GatewayCounts& gateway = *relay.statistics.add_gateways();
  gateway.set_gateway_id("gateway-1");
  gateway.set_arrived(3);
  first.set_role(v1::ROLE_EXPERTS);
  first.set_rank(1);
  first.set_epoch(7);
  auto well = calls_.Ask(Order(), Count());
  while (!well->done()) std::this_thread::yield();
  ASSERT_TRUE(well->result().ok()) << well->result().ToString();
  ASSERT_EQ(well->statistics().instances.size(), 1U);
  EXPECT_EQ(well->statistics().instances[0].epoch, 7U);
  EXPECT_EQ(well->statistics().instances[0].load, LoadCounts({.process = 9, .decode_rows = 4}));
  ASSERT_EQ(well->statistics().gateways.gateways.size(), 1U);
  EXPECT_EQ(well->statistics().gateways.gateways[0].gateway_id, "gateway-1");
  EXPECT_EQ(well->statistics().gateways.gateways[0].arrived, 3U);
  well.reset();
  ASSERT_EQ(woken_, 0) << "all is well";
  EXPECT_EQ(relay.question.service_uid(), "uid-1");
  ASSERT_EQ(relay.question.relay_size(), 3);
  EXPECT_EQ(relay.question.relay(2).name(), "experts-0");
  EXPECT_FALSE(relay.question.with_popularity());

  MemberOrder counting = Order();
  counting.with_popularity = true;
  v1::LayerPopularity& popularity = *relay.statistics.add_popularity();
  popularity.set_rows(3);
  popularity.add_tokens(5);
  auto counted = calls_.Ask(counting, Count());
  while (!counted->done()) std::this_thread::yield();
  EXPECT_TRUE(relay.question.with_popularity());
  EXPECT_EQ(counted->statistics().routing.popularity, (std::vector<LayerPopularity>{{0, 3, {5}}}));
  counted.reset();

  first.set_holding("a peer has gone");
  auto holding = calls_.Ask(Order(), Count());
  EXPECT_TRUE(ResultOf(*holding).ok());
  EXPECT_EQ(holding->statistics().instances[0].holding, "a peer has gone");
  first.clear_holding();
  relay.statistics.add_silent()->set_name("experts-2");
  auto silent = calls_.Ask(Order(), Count());
  EXPECT_TRUE(ResultOf(*silent).ok());
  ASSERT_EQ(silent->statistics().silent.size(), 1U);
  EXPECT_EQ(silent->statistics().silent[0].name, "experts-2");
  relay.status = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "another service");
  EXPECT_EQ(ResultOf(*calls_.Ask(Order(), Count())).code(), StatusCode::kPermissionDenied);
}

TEST_F(GrpcMemberCallsTest, WithoutAnAttentionInstanceThereIsNobodyToTell) {
  MemberOrder order = Order();
  order.members = {Member(Role::kExperts, "e0")};
  const auto call = calls_.Commit(order, Count());
  EXPECT_TRUE(call->done());
  EXPECT_TRUE(call->result().ok());
  EXPECT_TRUE(calls_.Ask(order, Count())->statistics().instances.empty());
}

TEST(ConnectionsTest, OfTooManyTheLeastRecentlyUsedGoes) {
  Connections connections(2);
  const std::vector<std::string> a = {"unix:/nowhere/a"}, b = {"unix:/nowhere/b"},
                                 c = {"unix:/nowhere/c"};
  const auto first = connections.Choose(a).stub, second = connections.Choose(b).stub;
  EXPECT_EQ(connections.Choose(a).stub, first);
  connections.Choose(c);
  EXPECT_EQ(connections.open(), 2U);
  EXPECT_EQ(connections.Choose(a).stub, first);
  EXPECT_NE(connections.Choose(b).stub, second) << "let go and made anew";
}

TEST(ConnectionsTest, WhereAllFailedTheOneThatFailedLongestAgoIsAsked) {
  Connections connections(8);
  const std::vector<std::string> all = {"unix:/nowhere/a", "unix:/nowhere/b"};
  for (const char* const next : {"a", "b", "a", "b"}) {
    const std::string address = connections.Choose(all).address;
    EXPECT_EQ(address, std::string("unix:/nowhere/") + next);
    connections.Failed(address);
  }
  connections.CameThrough("unix:/nowhere/b");
  EXPECT_EQ(connections.Choose(all).address, "unix:/nowhere/b");
}

}  // namespace
}  // namespace janus::control
