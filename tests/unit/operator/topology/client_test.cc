#include "operator/topology/client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "proto/convert.h"

namespace janus::control {
namespace {

using namespace std::chrono_literals;

// A member that keeps what it was asked and answers as it is told.
class ScriptedControl final : public v1::Control::Service {
 public:
  grpc::Status Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                       grpc::ServerWriter<v1::PrepareProgress>* writer) override {
    MutexLock lock(mu_);
    prepared = *request;
    v1::PrepareProgress progress;
    progress.set_phase("weights");
    progress.set_bytes_done(5);
    progress.set_bytes_total(10);
    writer->Write(progress);
    while (hold && !context->IsCancelled()) changed_.WaitUntil(mu_, MonotonicClock::now() + 10ms);
    if (context->IsCancelled()) {
      cancelled = true;
      changed_.NotifyAll();
      return grpc::Status::CANCELLED;
    }
    if (say_done) {
      progress.set_bytes_done(10);
      progress.set_done(true);
      writer->Write(progress);
    }
    return status;
  }
  grpc::Status Commit(grpc::ServerContext*, const v1::CommitRequest* request,
                      v1::CommitReply*) override {
    stamp = request->stamp();
    return status;
  }
  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest* request,
                     v1::AbortReply*) override {
    stamp = request->stamp();
    return status;
  }
  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest* request,
                     v1::DrainReply*) override {
    stamp = request->stamp();
    return status;
  }
  grpc::Status GetStatistics(grpc::ServerContext*, const v1::GetStatisticsRequest* request,
                             v1::Statistics* reply) override {
    service_uid = request->service_uid();
    reply->set_epoch(1);
    InstanceStatistics one;
    one.role = Role::kExperts;
    one.rank = Rank{3};
    one.rounds = 12;
    *reply->add_instances() = ToProto(one);
    return status;
  }

  void AwaitCancelled() {
    MutexLock lock(mu_);
    while (!cancelled) changed_.Wait(mu_);
  }

  bool hold = false;
  bool say_done = true;
  bool cancelled = false;
  grpc::Status status;
  v1::PrepareRequest prepared;
  v1::Stamp stamp;
  std::string service_uid;

 private:
  Mutex mu_;
  CondVar changed_;
};

class TopologyClientTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string dir = "/tmp/jclient-XXXXXX";
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    dir_ = dir;
    const std::string target = "unix:" + dir_ + "/a.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort(target, grpc::InsecureServerCredentials());
    builder.RegisterService(&control_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<TopologyClient>(target, Leader{"uid-1", 4});
  }
  void TearDown() override {
    client_.reset();
    server_->Shutdown();
    std::filesystem::remove_all(dir_);
  }

  static Topology Small() {
    Topology topology;
    topology.epoch = 1;
    topology.attention.push_back(
        {Role::kAttention, "a", 0, 0, "a", "local", "unix:/a", "unix:/ax", 0});
    topology.experts.push_back({Role::kExperts, "e", 0, 0, "e", "local", "unix:/e", "unix:/ex", 1});
    topology.placement.layers = 1;
    topology.placement.slots_of_instance = {1};
    topology.placement.expert_of = {0};
    return topology;
  }
  static ServicePlan Plan() {
    ServicePlan plan;
    plan.dtype = DType::kBFloat16;
    plan.max_model_len = 100;
    plan.max_batch_size = 7;
    plan.kv_bytes = 1000;
    plan.swap_bytes = 200;
    plan.queued_requests = 9;
    plan.tpot_target_milliseconds = 60;
    plan.compute_threads = 2;
    plan.m = 1;
    plan.n = 3;
    plan.effective.scheduling = SchedulingPolicy::kAebsGreedy;
    return plan;
  }
  static Status Await(const PrepareCall& call) {
    const MonotonicTime deadline = MonotonicClock::now() + 20s;
    while (!call.done() && MonotonicClock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(call.done());
    return call.result();
  }

  std::string dir_;
  ScriptedControl control_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<TopologyClient> client_;
};

TEST_F(TopologyClientTest, PreparesWithStampTopologyAndConfiguration) {
  TopologyClient::PrepareOptions options;
  options.epoch_key[0] = 7;
  options.debug_logits_hash = true;
  const auto call = client_->Prepare(Small(), Plan(), options);
  const Status status = Await(*call);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(call->progress().bytes_done, 10u);
  EXPECT_EQ(call->progress().bytes_total, 10u);
  EXPECT_EQ(call->progress().phase, "weights");
  const v1::PrepareRequest& sent = control_.prepared;
  EXPECT_EQ(sent.stamp().service_uid(), "uid-1");
  EXPECT_EQ(sent.stamp().fence(), 4u);
  EXPECT_EQ(sent.stamp().epoch(), 1u);
  EXPECT_EQ(sent.epoch_key().size(), 16u);
  EXPECT_EQ(sent.epoch_key()[0], 7);
  const Result<Topology> topology = FromProto(sent.topology());
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->experts, Small().experts);
  EXPECT_EQ(sent.config().dtype(), v1::DTYPE_BFLOAT16);
  EXPECT_EQ(sent.config().max_model_len(), 100u);
  EXPECT_EQ(sent.config().max_batch_size(), 7u);
  EXPECT_EQ(sent.config().kv_bytes(), 1000u);
  EXPECT_EQ(sent.config().swap_bytes(), 200u);
  EXPECT_EQ(sent.config().queued_requests(), 9u);
  EXPECT_EQ(sent.config().tpot_target_ms(), 60u);
  EXPECT_EQ(sent.config().compute_threads(), 2u);
  EXPECT_EQ(sent.config().machine_threads(), 8u) << "of all four workers";
  EXPECT_EQ(sent.config().scheduling(), v1::SCHEDULING_POLICY_AEBS_GREEDY);
  EXPECT_TRUE(sent.config().debug_logits_hash());
}

TEST_F(TopologyClientTest, PassesOnWhyPrepareWasRefused) {
  control_.say_done = false;
  control_.status = {grpc::StatusCode::INVALID_ARGUMENT, "model-1.safetensors: truncated"};
  const auto call = client_->Prepare(Small(), Plan(), {});
  EXPECT_EQ(Await(*call), InvalidArgument("model-1.safetensors: truncated"));
}

TEST_F(TopologyClientTest, DoesNotTakeAnEarlyEndForSuccess) {
  control_.say_done = false;
  const auto call = client_->Prepare(Small(), Plan(), {});
  EXPECT_EQ(Await(*call).code(), StatusCode::kUnavailable);
}

TEST_F(TopologyClientTest, CancelsAPrepareThatIsLetGo) {
  control_.hold = true;
  auto call = client_->Prepare(Small(), Plan(), {});
  while (call->progress().bytes_done != 5) std::this_thread::yield();
  EXPECT_FALSE(call->done());
  call.reset();
  control_.AwaitCancelled();
}

TEST_F(TopologyClientTest, StampsEveryWrite) {
  EXPECT_TRUE(client_->Commit(3, Seconds(10)).ok());
  EXPECT_EQ(control_.stamp.epoch(), 3u);
  EXPECT_EQ(control_.stamp.fence(), 4u);
  EXPECT_TRUE(client_->Abort(5, Seconds(10)).ok());
  EXPECT_EQ(control_.stamp.epoch(), 5u);
  EXPECT_TRUE(client_->Drain(6, Seconds(10)).ok());
  EXPECT_EQ(control_.stamp.epoch(), 6u);
  EXPECT_EQ(control_.stamp.service_uid(), "uid-1");
  control_.status = {grpc::StatusCode::ABORTED, "fence 9 was seen"};
  EXPECT_EQ(client_->Commit(3, Seconds(10)), Aborted("fence 9 was seen"));
  control_.status = {grpc::StatusCode::UNAUTHENTICATED, "who"};
  EXPECT_EQ(client_->Commit(3, Seconds(10)).code(), StatusCode::kPermissionDenied);
}

TEST_F(TopologyClientTest, ReadsStatistics) {
  const Result<Statistics> statistics = client_->GetStatistics(Seconds(10));
  ASSERT_TRUE(statistics.ok()) << statistics.status().ToString();
  EXPECT_EQ(control_.service_uid, "uid-1");
  EXPECT_EQ(statistics->epoch, 1u);
  ASSERT_EQ(statistics->instances.size(), 1u);
  EXPECT_EQ(statistics->instances[0].rank, Rank{3});
  EXPECT_EQ(statistics->instances[0].rounds, 12u);
}

TEST(TopologyClient, SaysThatNobodyAnswers) {
  TopologyClient client("unix:/nonexistent/x.sock", {"u", 1});
  EXPECT_EQ(client.GetStatistics(Seconds(10)).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace janus::control
